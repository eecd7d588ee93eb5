// The decision of all ranks on one number: step 1 of roll_call.h.
#pragma once

#include <cstdint>
#include <optional>

#include "checkpoint/ranks/rank_table.h"
#include "checkpoint/ranks/verdict.h"

namespace cairn {

// Before any rank meets the others: by one of them, once.
void open_table(Meeting& meeting);

class RankDecision {
 public:
  // `table` must outlive it.
  RankDecision(const RankTable& table, std::int64_t number) : table_(table), number_(number) {}

  // Whether it was decided for the number, as far as settle() and look() have seen.
  bool is_good() const { return is_good_; }
  // The decision, if there is one. MeetingError.
  std::optional<Verdict> look();
  // Decides, or learns what was decided before. MeetingError.
  Verdict settle(const Verdict& verdict);

 private:
  const RankTable& table_;
  const std::int64_t number_;
  bool is_good_ = false;
};

}  // namespace cairn
