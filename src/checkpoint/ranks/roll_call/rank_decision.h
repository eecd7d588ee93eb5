// The decision of all ranks on one number: step 1 of roll_call.h.
#pragma once

#include <cstdint>
#include <optional>

#include "checkpoint/ranks/rank_table.h"
#include "checkpoint/ranks/verdict.h"

namespace cairn {

// Opens the meeting place. One rank must call open_table() once, before any rank meets the others.
void open_table(Meeting& meeting);

class RankDecision {
 public:
  // `table` must outlive this object.
  RankDecision(const RankTable& table, std::int64_t number) : table_(table), number_(number) {}

  // Whether the decision was for the number, as far as settle() and look() have seen.
  bool is_good() const { return is_good_; }
  // Returns the decision, if there is one. Throws MeetingError.
  std::optional<Verdict> look();
  // Decides, or returns the decision that was made before. Throws MeetingError.
  Verdict settle(const Verdict& verdict);

 private:
  const RankTable& table_;
  const std::int64_t number_;
  bool is_good_ = false;
};

}  // namespace cairn
