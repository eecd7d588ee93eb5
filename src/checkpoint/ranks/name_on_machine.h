// Several machines without a shared file system save a checkpoint under one name. This file decides
// for each machine what happens to whatever has that name already. Nothing that may be a part of a
// whole checkpoint is replaced, and remains of failed attempts at that name do not pile up.
//
// clang-format off
//  1. A part is a folder on a machine other than rank 0's. It says to which attempt it belongs, and
//     which machine has to publish it (`.metadata`): rank 0's. When its rank learns that this
//     happened, it leaves a mark in the part. A start that finds the checkpoint whole leaves the
//     mark, too. Without a mark the attempt failed, or a rank died in the moment between.
//  2. Before a machine makes a folder, it puts aside what has the name there and does not say what
//     it is: as NAME.unreadable if the disk does not return it, otherwise as NAME.damaged. The
//     folder that an attempt leaves always says it.
//  3. Rank 0 knows for all machines what has the name there, and what was put aside under it. A
//     machine keeps what has the name, as NAME.damaged, in three cases:
//      - it has `.metadata` or the mark;
//      - its attempt was published on any machine of the job;
//      - it cannot be known whether it was published: the machine that had to publish it is not in
//        the job, or something was put aside that does not say what it was. This case does not
//        count if a part without a mark was put aside on this machine before.
//     Any other part is taken for the remains of a failed attempt, and is replaced.
// clang-format on
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "cairn/storage/object_store.h"

namespace cairn {

struct NameOnMachine {
  // About what has the name.
  bool is_there = false;
  bool was_published = false;
  std::string attempt = {};    // empty: it is not a part
  std::string publisher = {};  // for a part: the machine that has to publish it
  // The published attempts among what has the name and what was put aside.
  std::vector<std::string> published = {};
  // Whether something unknown was put aside, and whether a part without a mark was.
  bool has_unknown_aside = false;
  bool has_unpublished_aside = false;
};

// Step 2. Throws AlreadyExistsError, or the disk's error, if it may not put aside. Throws
// StorageError for a name that cannot be looked at.
void put_unknown_aside(ObjectStore& store, const std::string& path, bool may_put_aside);

// Returns the state of the name on this machine. Throws StorageError.
NameOnMachine look_at_name(ObjectStore& store, const std::string& path);

// Step 1: marks the part if it is there and belongs to this attempt. Never fails; if it cannot mark
// the part, the next start does.
void mark_published(ObjectStore& store, const std::string& path, const std::string& attempt);

// Removes the part of an attempt that never will be published. Never fails; a part that it cannot
// remove counts as the remains of a failed attempt.
void remove_unpublished(ObjectStore& store, const std::string& path, const std::string& attempt);

// The text that is sent between ranks. parse_name_on_machine() throws MeetingError.
std::string text_of(const NameOnMachine& name);
NameOnMachine parse_name_on_machine(const std::string& text);

// Step 3. `machines`: the machines of the job. `all`: the state of the name on each of them.
bool is_kept(const NameOnMachine& part, const std::vector<NameOnMachine>& all,
             const std::set<std::string>& machines);

}  // namespace cairn
