// Something that all ranks do together, without any of them waiting for one that does not come.
//
// clang-format off
//  1. What the ranks do together is numbered, on each rank for itself, in the same order on all.
//     Number n has keys of its own at the meeting place, "n/...". What becomes of the last few of
//     them stands in one key, "decisions", which is only ever changed from what it was: the first
//     who decides on n does so for all. Everybody may decide against it, also before rank 0 has
//     come; for it, rank 0 alone, when it has all that it needs.
//  2. Each rank moves its own key, "beat/<rank>", on: about every second, by the thread that does
//     the work, between two blocks that it writes and while it waits. So a long write is no hang,
//     and a thread that hangs is not taken for one that works.
//  3. Rank 0 watches all others until they have given what it waits for, and they watch rank 0. A
//     key that stands still for `silence` accuses its rank: that is a decision against n, as in 1.
//     Clocks are compared with themselves alone. Who was away himself for long begins to watch anew
//     before he accuses anybody.
//  4. Whoever moves on looks at the decision, and ends when it is one against n.
//  5. A call to the meeting place that fails is made again for `reach`. Behind that a rank knows
//     nothing of the others, and decides nothing: it ends with an error of its own.
//  6. When all have come to n, rank 0 removes the keys of what was before.
//  7. Whoever knows how n ended says so. Rank 0, in whose process the meeting place may be, goes on
//     when all have done so, and after `farewell` at the latest.
// clang-format on
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "checkpoint/ranks/rank_table.h"
#include "checkpoint/ranks/roll_call/rank_decision.h"
#include "checkpoint/ranks/roll_call/signs_of_life.h"
#include "checkpoint/ranks/verdict.h"

namespace cairn {

class RollCall {
 public:
  // That was decided against this; or it was decided for it, and did not succeed.
  struct Settled {
    Verdict verdict;
  };
  // It was decided for it, and rank 0, who does it, is not heard of any more.
  struct Unknown {
    std::int64_t rank;
  };

  // The next one. `what` is for messages.
  RollCall(RankTable& table, std::string what);

  bool leads() const { return me().rank == 0; }
  const RankOfJob& me() const { return table_.me; }
  const std::string& what() const { return what_; }

  // Comes: before all others. Throws as move_on().
  void begin();
  // Steps 2 to 4, as far as it is time for them. Throws Settled, Unknown, MeetingError.
  void move_on();
  // Waits that long, and moves on.
  void pause(std::chrono::milliseconds time);
  // From now on rank 0 does not watch that one.
  void unwatch(std::int64_t rank) { watched_.remove(rank); }

  void set(const std::string& name, const std::string& value);
  std::optional<std::string> find(const std::string& name);
  // Its value, as soon as there is one.
  std::string wait_for(const std::string& name);

  // Decides, or learns what was decided before.
  Verdict settle(const Verdict& verdict) { return decision_.settle(verdict); }
  // Waits for a decision for it; throws the one against it.
  void wait_for_decision();
  // It was decided: signs of life are all that is left to do, and rank 0 does not need an answer.
  void sign_of_life();

  // Does what takes as long as a store likes, and that nobody can stop any more: meanwhile another
  // thread gives signs of life, where there may be one (RankTable::has_threads).
  void beating(const std::function<void()>& work);
  bool is_beating() const { return is_beating_; }

  // Of rank 0: all have come (step 6).
  void all_have_come();
  // This is over, as this rank knows (step 7).
  void end();

 private:
  std::string key(const std::string& name) const;
  void look();
  void look_at_decision();
  void forget(std::int64_t number);
  void see_off();
  [[noreturn]] void accuse(const WatchedRanks::Silent& silent);

  RankTable& table_;
  Meeting& meeting_;
  const std::string what_;
  const std::int64_t number_;
  RankDecision decision_;
  SignsOfLife signs_;
  WatchedRanks watched_;
  Meeting::Time last_look_;
  bool is_beating_ = false;
};

}  // namespace cairn
