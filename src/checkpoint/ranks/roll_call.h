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
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/ranks/meeting.h"
#include "checkpoint/ranks/verdict.h"

namespace cairn {

struct RankOfJob {
  std::int64_t rank = 0;
  std::int64_t world_size = 1;
  std::int64_t machine_leader = 0;  // the first rank of this one's machine
  std::string machine = {};         // what that is called
};

// Whoever raises `silence` waits longer for a rank that is gone; a disk that takes longer for one
// block, or to sync one file, needs it. All ranks have the same.
struct Patience {
  std::chrono::milliseconds silence{6000};     // of a rank, before it is given up
  std::chrono::milliseconds beat{1000};        // between two signs of life
  std::chrono::milliseconds look{500};         // between two looks at the others
  std::chrono::milliseconds longest_poll{50};  // for what is waited for
  std::chrono::milliseconds reach{2000};       // how long a call that fails is made again
  std::chrono::milliseconds farewell{1000};    // for all to learn the end
};

// The ranks of a job, as one of them meets the others. One thread at a time.
struct RankTable {
  std::shared_ptr<Meeting> meeting;
  RankOfJob me = {};
  Patience patience = {};
  std::int64_t number = 0;                   // of what was done last
  std::vector<std::int64_t> to_forget = {};  // those with keys there: of rank 0
  // Whether the meeting place may be used by another thread while this one waits for the disk.
  bool has_threads = false;
  // 16 hexadecimal digits that nobody else draws: random_digits() when null.
  std::function<std::string()> draw_id = nullptr;
};

// Before any rank meets the others: by one of them, once.
void open_table(Meeting& meeting);

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
  // From now on rank 0 does not watch that one (or does again).
  void unwatch(std::int64_t rank) { watched_.erase(rank); }
  void watch(std::int64_t rank);

  void set(const std::string& name, const std::string& value);
  std::optional<std::string> find(const std::string& name);
  // Its value, as soon as there is one.
  std::string wait_for(const std::string& name);

  // Decides, or learns what was decided before.
  Verdict settle(const Verdict& verdict);
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
  struct Watched {
    std::string beat;
    Meeting::Time changed;
  };
  template <class Ask>
  auto ask(const Ask& call) -> decltype(call());
  std::string key(const std::string& name) const;
  std::string decisions();
  void beat();
  void look();
  void look_at_decision();
  void look_at_rank(std::int64_t rank, Watched& watched);
  void forget(std::int64_t number);
  bool has_left(std::int64_t rank);
  void see_off();
  [[noreturn]] void accuse(std::int64_t rank, const std::string& why);

  RankTable& table_;
  Meeting& meeting_;
  const std::string what_;
  const std::int64_t number_;
  std::int64_t beats_ = 0;
  Meeting::Time last_beat_;
  Meeting::Time last_look_;
  bool is_decided_ = false;  // for it
  bool is_beating_ = false;
  std::map<std::int64_t, Watched> watched_;
};

}  // namespace cairn
