// The tables at which this process meets the others of its group, to save and to resume.
//
//  1. What a roll call leaves in c10d's store goes with the next one at the same table, when all
//     have come to that (checkpoint/ranks/roll_call.h): nobody else knows when all have read it. So
//     a table that nobody needs any more is used again, and there are as many as were ever needed
//     at once, however often a job saves.
//  2. One rank lets go of a table later than another. All take the first that is free on every
//     rank; where there is none, a new one.
//  3. Each use numbers its roll calls behind all of those before it, on all ranks alike: of one
//     that failed some ranks may have made fewer.
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
  // On all ranks together. Whoever lets go of it last, on any thread, gives it back. DistError.
  std::shared_ptr<RankTable> take(Group& group);

 private:
  struct Table;
  std::size_t find_free(const Group& group) const;
  static void open(const Group& group, RankTable& table);

  std::vector<std::shared_ptr<Table>> tables_;  // as many on all ranks
  std::int64_t uses_ = 0;
};

// How this process meets the others of its group to commit and to agree (commit_over_ranks.h), once
// for each thread that does, for as long as it is kept. All ranks call it together. UsageError when
// it is alone.
std::shared_ptr<RankTable> rank_table();

}  // namespace cairn::dist
