// The tables at which this process meets the others of its group, to save and to resume.
//
//  1. The entries of a roll call in c10d's store are removed by the next one at the same table,
//     when all ranks have come to that (checkpoint/ranks/roll_call.h). Only then is it known that
//     all have read them. So a table that is no longer needed is reused: there are only as many
//     tables as were ever needed at once, however often a job saves.
//  2. Ranks release a table at different times. All take the first one that is free on every rank,
//     or a new one if there is none.
//  3. Each use numbers its roll calls after all of the previous uses, the same on all ranks.
//     Counting on would not do: in a use that failed, some ranks may have made fewer.
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

// How this process meets the others of its group to commit and to agree (commit_over_ranks.h). Take
// one for each thread that does so. All ranks must call it together. Throws UsageError for a single
// process.
std::shared_ptr<RankTable> rank_table();

}  // namespace cairn::dist
