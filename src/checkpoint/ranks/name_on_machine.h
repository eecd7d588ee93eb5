// Several machines without a shared file system save a checkpoint under one name. This file decides
// for each machine what happens to a file or folder that has this name already. Nothing that may be
// a part of a whole checkpoint is replaced, and remains of failed attempts at that name do not pile
// up.
//
// clang-format off
//  1. A part is a folder on a machine other than rank 0's. It says to which attempt it belongs, and
//     which machine has to publish the checkpoint (write `.metadata`): rank 0's. When the part's
//     rank learns that the checkpoint was published, the rank leaves a mark in the part. A start
//     that finds the checkpoint whole leaves the mark, too. A part has no mark if the attempt
//     failed, or if a rank died between publishing and marking.
//  2. Before a machine makes a folder, it puts aside a file or folder that has the name already and
//     does not say what it is: as NAME.unreadable if the disk does not return it, otherwise as
//     NAME.damaged. A folder that an attempt leaves always says what it is.
//  3. Rank 0 knows for every machine what has the name, and what was put aside under the name. A
//     machine keeps what has the name, as NAME.damaged, in three cases:
//      - it has `.metadata` or the mark;
//      - its attempt was published on any machine of the job;
//      - it cannot be known whether its attempt was published: the machine that had to publish it
//        is not in the job, or something was put aside that does not say what it was. This case
//        does not count if a part without a mark was put aside on this machine before.
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
  // About the file or folder that has the name.
  bool is_there = false;
  bool was_published = false;
  std::string attempt = {};    // empty: it is not a part
  std::string publisher = {};  // for a part: the machine that has to publish the checkpoint
  // The published attempts among what has the name and what was put aside.
  std::vector<std::string> published = {};
  // Whether something unknown was put aside, and whether a part without a mark was put aside.
  bool has_unknown_aside = false;
  bool has_unpublished_aside = false;
};

// Step 2. Throws AlreadyExistsError, or the disk's error, if something unknown has the name and
// `may_put_aside` is false. Throws StorageError for a name that cannot be looked at.
void put_unknown_aside(ObjectStore& store, const std::string& path, bool may_put_aside);

// Returns the state of the name on this machine. Throws StorageError.
NameOnMachine look_at_name(ObjectStore& store, const std::string& path);

// Step 1: marks the part if there is one that belongs to this attempt. Never fails; if it cannot
// mark the part, the next start marks it.
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
