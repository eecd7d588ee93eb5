// The tables at which this process meets the others of its group, to save and to resume.
//
//  1. The entries of a roll call in c10d's store are removed by the next roll call at the same
//     table, when all ranks have come to the next one (checkpoint/ranks/roll_call.h). Only then is
//     it known that all ranks have read the entries. So a table that is no longer needed is reused:
//     there are only as many tables as were ever needed at once, however often a job saves.
//  2. Ranks release a table at different times. All ranks take the first table that is free on
//     every rank, or a new table if there is none.
//  3. Each use of a table numbers its roll calls higher than all previous uses did, with the same
//     numbers on all ranks. It cannot continue from a rank's last number: in a use that failed,
//     some ranks may have made fewer roll calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "checkpoint/ranks/roll_call.h"

namespace cairn::dist {

class Group;

class RankTables {
 public:
  RankTables();
  ~RankTables();
  // Call it on all ranks together. Releasing the last reference, on any thread, frees the table.
  // Throws DistError.
  std::shared_ptr<RankTable> take(Group& group);

 private:
  struct Table;
  std::size_t find_free(const Group& group) const;
  static void open(const Group& group, RankTable& table);

  std::vector<std::shared_ptr<Table>> tables_;  // Equally many on all ranks.
  std::int64_t uses_ = 0;
};

// Returns a table at which this process meets the others of its group to commit and to agree
// (commit_over_ranks.h). Take one table for each thread that does so. All ranks must call it
// together. Throws UsageError for a single process.
std::shared_ptr<RankTable> rank_table();

}  // namespace cairn::dist
