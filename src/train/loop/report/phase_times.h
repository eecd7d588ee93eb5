// PhaseTimes: where the time of a fit() goes, as the host sees it.
//
// A device works while the host goes on: there, a phase has the time in which its work is handed to
// the device, and the phase that waits for the device has the rest.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

namespace cairn {

enum class Phase : std::uint8_t { kData, kForward, kBackward, kStep, kEvaluation, kSaving };
constexpr std::size_t kPhases = 6;
const char* name(Phase phase);  // "data"

class PhaseTimes {
 public:
  using Clock = std::chrono::steady_clock;

  // Begins now, after `first_batch` batches.
  explicit PhaseTimes(std::int64_t first_batch = 0, Clock::time_point begin = Clock::now())
      : first_batch_(first_batch), begin_(begin) {}

  // Sees each span, when it ends.
  using Observer = std::function<void(Phase phase, Clock::time_point begin, Clock::time_point end)>;
  void set_observer(Observer observer) { observer_ = std::move(observer); }

  void add(Phase phase, Clock::duration time) { spent_[static_cast<std::size_t>(phase)] += time; }
  void add(Phase phase, Clock::time_point begin, Clock::time_point end) {
    add(phase, end - begin);
    if (observer_) observer_(phase, begin, end);
  }

  // "time: 12.4 s for 600 batches: data 3 %, forward 31 %, ..., other 6 %". `batch` counts the
  // batches of the run.
  std::string describe(std::int64_t batch, Clock::time_point now = Clock::now()) const;

 private:
  std::int64_t first_batch_;
  Clock::time_point begin_;
  std::array<Clock::duration, kPhases> spent_{};
  Observer observer_;
};

// Adds the time of its life to a phase.
class PhaseTimer {
 public:
  PhaseTimer(PhaseTimes& times, Phase phase) : times_(times), phase_(phase) {}
  ~PhaseTimer() { times_.add(phase_, begin_, PhaseTimes::Clock::now()); }
  PhaseTimer(const PhaseTimer&) = delete;
  PhaseTimer& operator=(const PhaseTimer&) = delete;

 private:
  PhaseTimes& times_;
  Phase phase_;
  PhaseTimes::Clock::time_point begin_ = PhaseTimes::Clock::now();
};

}  // namespace cairn
