// How a rank meets the others: at which place, as which rank, with how much patience.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/ranks/meeting.h"

namespace cairn {

struct RankOfJob {
  std::int64_t rank = 0;
  std::int64_t world_size = 1;
  std::int64_t machine_leader = 0;  // the first rank of this one's machine
  std::string machine = {};         // what that is called
};

// All ranks have the same. A larger `silence` means a longer wait for a rank that is gone. A disk
// that takes longer for one block, or to sync one file, needs it.
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

  // Makes a call to the meeting place, and makes it again for Patience::reach while it fails. Then
  // throws its MeetingError (step 5 of roll_call.h).
  template <class Call>
  auto ask(const Call& call) const -> decltype(call());
};

template <class Call>
auto RankTable::ask(const Call& call) const -> decltype(call()) {
  constexpr std::chrono::milliseconds kPause{100};
  const Meeting::Time begin = meeting->now();
  for (;;) {
    try {
      return call();
    } catch (MeetingError& e) {
      if (meeting->now() - begin >= patience.reach) {
        e.add_context(
            "what the ranks tell each other, where rank 0 or its launcher keeps it, "
            "cannot be reached");
        throw;
      }
    }
    meeting->pause(kPause);
  }
}

}  // namespace cairn
