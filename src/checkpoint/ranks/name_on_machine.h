// What has the name of a checkpoint on one machine of several without a file system in common, and
// what is to become of it when that name is saved: nothing that may be a part of a whole checkpoint
// is replaced, and what failed attempts leave does not pile up.
//
// clang-format off
//  1. A part, a folder of a machine that is not rank 0's, says which attempt it is of, and which
//     machine publishes it (`.metadata`): rank 0's.
//  2. Before a machine makes a folder it puts aside what has the name there and does not say what
//     it is: NAME.unreadable when its disk does not give it, NAME.damaged otherwise. What an
//     attempt leaves always says it.
//  3. Rank 0 knows of all machines what has the name there, which attempts were published under it
//     and put aside since, and of how many that were put aside nobody can tell what they were. A
//     part is kept, as NAME.damaged,
//      - when it was published there;
//      - when that attempt was published on any machine of the job;
//      - when the machine that publishes it is not in the job: nobody can know;
//      - when more was put aside of which nobody can tell what it was than when it was made: it may
//        be of that.
//     Any other part was never published, and is replaced.
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
  bool is_published = false;
  std::string attempt = {};          // empty: it is no part
  std::string publisher = {};        // of a part: the machine
  std::uint64_t unknown_before = 0;  // of a part: `unknown` of all machines, when it was made
  // Of what has the name or was put aside.
  std::vector<std::string> published = {};  // attempts
  std::uint64_t unknown = 0;                // put aside, and nobody can tell what it was
};

// Step 2. AlreadyExistsError, or what the disk says, when it may not be put aside. StorageError for
// a name that cannot be looked at.
void put_unknown_aside(ObjectStore& store, const std::string& path, bool may_put_aside);

// StorageError.
NameOnMachine look_at_name(ObjectStore& store, const std::string& path);

// As it travels between ranks. parse_name_on_machine(): MeetingError.
std::string text_of(const NameOnMachine& name);
NameOnMachine parse_name_on_machine(const std::string& text);

// Of all machines: what was put aside, and nobody can tell what it was.
std::uint64_t unknown_of(const std::vector<NameOnMachine>& all);

// Step 3. `machines`: those of the job.
bool is_kept(const NameOnMachine& part, const std::vector<NameOnMachine>& all,
             const std::set<std::string>& machines);

}  // namespace cairn
