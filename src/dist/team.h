// The ranks of a job, and what they do or find out together on their training threads. (Threads
// that save meet in roll calls: checkpoint/ranks/roll_call.h.)
//
// All ranks make the same calls in the same order. Each call is one collective. A team of one
// process only calls the function that it is given.
//
// An error on one rank is an error on all: that rank throws its own exception, and the others throw
// one of the same class, which names the rank. A DistError is thrown at once, because then the
// ranks cannot agree on anything. While a function runs, the other ranks wait as long as it takes
// (dist::LongWork).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cairn/value.h"

namespace cairn {

class Team {
 public:
  // All ranks of this job. A single process is a team, too.
  static Team of_job();

  std::int64_t rank() const { return rank_; }
  std::int64_t size() const { return size_; }
  bool is_first() const { return rank_ == 0; }
  bool is_alone() const { return size_ == 1; }

  // Rank 0 calls `act`. Returns its result on all ranks. `doing` is for the other ranks' messages:
  // "before saving run/ep1.pt".
  Value do_on_first(const std::string& doing, const std::function<Value()>& act) const;
  // All ranks call `act`. If several ranks throw, the errors on the other ranks name the first of
  // these ranks.
  void run_on_all(const std::string& doing, const std::function<void()>& act) const;
  // As run_on_all(). Returns the results of all ranks, by rank.
  std::vector<Value> gather_results(const std::string& doing,
                                    const std::function<Value()>& act) const;

  // Rank 0's value on all ranks, and the values of all ranks, by rank. Use these two for values
  // whose making cannot fail.
  Value broadcast_from_first(const Value& own) const;
  std::vector<Value> gather_all(const Value& own) const;

 private:
  Team(std::int64_t rank, std::int64_t size) : rank_(rank), size_(size) {}

  std::int64_t rank_;
  std::int64_t size_;
};

}  // namespace cairn
