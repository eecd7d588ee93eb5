// A roll call: all ranks do something together, and none of them waits for a rank that does not
// come.
//
// clang-format off
//  1. Each roll call has a number. Every rank counts its own roll calls, which come in the same
//     order on all ranks. Number n has its own keys at the meeting place, "n/...". The decisions on
//     the last few numbers are in one key, "decisions", which is changed only by
//     compare-and-exchange. So the first rank that decides on n decides for all. Every rank may
//     decide against n, even before rank 0 has come. Only rank 0 may decide for n, when rank 0 has
//     all that it needs.
//  2. Each rank changes its own key, "beat/<rank>", about every second. The thread that does the
//     work does this, between two blocks that it writes and while it waits. So a long write does
//     not look like a hang, and a thread that hangs does not look as if it works.
//  3. Rank 0 watches each other rank until that rank has given what rank 0 waits for. The other
//     ranks watch rank 0. If a key does not change for `silence`, its rank is accused: this is a
//     decision against n, as in 1. Each clock is compared only with itself. If a rank has itself
//     not looked for long, it begins to watch anew before it accuses another rank.
//  4. While a rank works or waits, it looks at the decision, and stops if the decision is against
//     n.
//  5. A failed call to the meeting place is repeated for `reach`. If the call still fails, the rank
//     knows nothing of the other ranks, and decides nothing: it ends with its own error.
//  6. When all ranks have come to n, rank 0 removes the keys of earlier numbers.
//  7. A rank that knows how n ended says so. Rank 0, whose process may host the meeting place,
//     waits until all have said so, for `farewell` at most.
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
  // Thrown if the decision is against this call, or if it was for the call and the work failed
  // afterwards.
  struct Settled {
    Verdict verdict;
  };
  // Thrown if the decision was for this call, and rank 0, which carries it out, has become silent.
  struct Unknown {
    std::int64_t rank;
  };

  // The next roll call. `what` is for messages.
  RollCall(RankTable& table, std::string what);

  bool is_leader() const { return me().rank == 0; }
  const RankOfJob& me() const { return table_.me; }
  const std::string& what() const { return what_; }

  // Joins the call; must be called before all other functions. Throws what keep_alive() throws.
  void begin();
  // Does steps 2 to 4 if it is time for them. Throws Settled, Unknown and MeetingError.
  void keep_alive();
  // Waits for `time`, and calls keep_alive() meanwhile.
  void pause(std::chrono::milliseconds time);
  // From now on rank 0 does not watch `rank`.
  void unwatch(std::int64_t rank) { watched_.remove(rank); }

  void set(const std::string& name, const std::string& value);
  std::optional<std::string> find(const std::string& name);
  // Waits until the key has a value, and returns it.
  std::string wait_for(const std::string& name);

  // Decides, or returns the decision that was made before.
  Verdict settle(const Verdict& verdict) { return decision_.settle(verdict); }
  // Waits for a decision for this call. Throws Settled if the decision is against the call.
  void wait_for_decision();
  // For the time after the decision: gives a sign of life; a failure is ignored.
  void sign_of_life();

  // Does work that takes as long as the store needs, and that cannot be stopped any more. Meanwhile
  // another thread gives signs of life, if RankTable::has_threads.
  void with_signs_of_life(const std::function<void()>& work);
  bool is_giving_signs() const { return is_giving_signs_; }

  // For rank 0, after all ranks have come: removes the keys of earlier calls (step 6).
  void forget_earlier_calls();
  // Says that this rank knows how the call ended (step 7).
  void end();

 private:
  std::string key(const std::string& name) const;
  void look();
  void look_at_decision();
  void forget(std::int64_t number);
  void wait_for_farewells();
  [[noreturn]] void accuse(const WatchedRanks::Silent& silent);

  RankTable& table_;
  Meeting& meeting_;
  const std::string what_;
  const std::int64_t number_;
  RankDecision decision_;
  SignsOfLife signs_;
  WatchedRanks watched_;
  Meeting::Time last_look_;
  bool is_giving_signs_ = false;
};

}  // namespace cairn
