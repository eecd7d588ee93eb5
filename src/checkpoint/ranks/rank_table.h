// How a rank meets the other ranks: the meeting place, its own rank and its patience.
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
  std::int64_t machine_leader = 0;  // the first rank of this rank's machine
  std::string machine = {};         // the machine's name
};

// All ranks must have the same values. A larger `silence` means a longer wait for a rank that is
// gone. A larger value is needed for a disk that takes longer to write one block or to sync one
// file.
struct Patience {
  std::chrono::milliseconds silence{6000};     // of a rank before it is given up
  std::chrono::milliseconds beat{1000};        // between two signs of life
  std::chrono::milliseconds look{500};         // between two looks at the other ranks
  std::chrono::milliseconds longest_poll{50};  // longest pause between two queries for a value
  std::chrono::milliseconds reach{2000};       // how long a failed call is repeated
  std::chrono::milliseconds farewell{1000};    // for all ranks to learn the outcome
};

// The ranks of a job, as one of them meets the others. Only one thread at a time may use it.
struct RankTable {
  std::shared_ptr<Meeting> meeting;
  RankOfJob me = {};
  Patience patience = {};
  std::int64_t number = 0;                   // of the last roll call
  std::vector<std::int64_t> to_forget = {};  // on rank 0: numbers that still have keys
  // Whether another thread may use the meeting place while this one waits for the disk.
  bool has_threads = false;
  // Returns 16 hexadecimal digits that are unique. Null: random_digits().
  std::function<std::string()> draw_id = nullptr;

  // Makes a call to the meeting place, and repeats the call for Patience::reach while it fails.
  // After that throws the call's MeetingError (step 5 of roll_call.h).
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
            "the meeting place of the ranks, which rank 0 or its launcher keeps, cannot be "
            "reached");
        throw;
      }
    }
    meeting->pause(kPause);
  }
}

}  // namespace cairn
