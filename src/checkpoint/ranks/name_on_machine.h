// What has the name of a checkpoint on one machine of several without a file system in common, and
// what is to become of it when that name is saved: nothing that may be a part of a whole checkpoint
// is replaced, and what failed attempts at that name leave does not pile up.
//
// clang-format off
//  1. A part, a folder of a machine that is not rank 0's, says which attempt it is of, and which
//     machine is to publish it (`.metadata`): rank 0's. When its rank learns that it did, it leaves
//     a mark in the part; a start that finds the checkpoint whole does so, too. Without a mark the
//     attempt failed, or one of the ranks died in the moment between.
//  2. Before a machine makes a folder it puts aside what has the name there and does not say what
//     it is: NAME.unreadable when its disk does not give it, NAME.damaged otherwise. What an
//     attempt leaves always says it.
//  3. Rank 0 knows of all machines what has the name there and what was put aside under it. What
//     has it is kept, as NAME.damaged,
//      - when it has `.metadata` or the mark;
//      - when that attempt was published on any machine of the job;
//      - when nobody can know that, since the machine that was to publish it is not in the job, or
//        something was put aside that does not say what it was; but not when a part that does not
//        say that it was published was put aside on this machine before.
//     Any other part is taken for one of an attempt that failed, and is replaced.
// clang-format on
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "cairn/storage/object_store.h"

namespace cairn {

struct NameOnMachine {
  // Of what has the name.
  bool is_there = false;
  bool was_published = false;
  std::string attempt = {};    // empty: it is no part
  std::string publisher = {};  // of a part: the machine
  // Of what has the name or was put aside: the attempts that were published.
  std::vector<std::string> published = {};
  // Whether something was put aside that does not say what it was, or a part that does not say that
  // it was published.
  bool has_unknown_aside = false;
  bool has_unpublished_aside = false;
};

// Step 2. AlreadyExistsError, or what the disk says, when it may not be put aside. StorageError for
// a name that cannot be looked at.
void put_unknown_aside(ObjectStore& store, const std::string& path, bool may_put_aside);

// StorageError.
NameOnMachine look_at_name(ObjectStore& store, const std::string& path);

// Step 1: of a part that was published, if it is there and of that attempt. Never fails: the next
// start does it, then.
void mark_published(ObjectStore& store, const std::string& path, const std::string& attempt);

// Removes a part of that attempt, which never will be published. Never fails: then it is what a
// failed attempt leaves.
void remove_unpublished(ObjectStore& store, const std::string& path, const std::string& attempt);

// As it travels between ranks. parse_name_on_machine(): MeetingError.
std::string text_of(const NameOnMachine& name);
NameOnMachine parse_name_on_machine(const std::string& text);

// Step 3. `machines`: those of the job; `all`: what each of them has.
bool is_kept(const NameOnMachine& part, const std::vector<NameOnMachine>& all,
             const std::set<std::string>& machines);

}  // namespace cairn
