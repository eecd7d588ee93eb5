// Interval: how often something happens: an epoch count, a time string, a Time, or a function.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <variant>

#include "cairn/export.h"
#include "cairn/time.h"
#include "cairn/train/event.h"

namespace CAIRN_PUBLIC cairn {

class State;

// Says whether it is time. Called at the events that the option uses (for saving: the *_checkpoint
// events).
using IntervalFunction = std::function<bool(const State& state, Event event)>;

// `1` and "1ep" mean every epoch, "100ba" every hundred batches, "0.1dur" ten times per run. 0
// means never, if the option allows that (eval_interval). Counts are those of the run, not of a
// fit() or since a resume: "100ba" is at the same batches however often the run is stopped. A
// function decides at each event, on the training thread; it must depend on the state only.
class Interval {
 public:
  // NOLINTBEGIN(google-explicit-constructor)
  template <std::integral Int>
  requires(!std::same_as<Int, bool>) Interval(Int epochs)
      : rule_(Time::epochs(static_cast<std::int64_t>(epochs))) {}
  Interval(const char* text) : rule_(Time(text)) {}
  Interval(const std::string& text) : rule_(Time(text)) {}
  Interval(Time time) : rule_(time) {}
  template <class Rep, class Period>
  Interval(std::chrono::duration<Rep, Period> time)  // whole seconds, rounded down
      : rule_(Time(static_cast<std::int64_t>(
                       std::chrono::duration_cast<std::chrono::seconds>(time).count()),
                   TimeUnit::kSecond)) {}
  template <class Function>
  requires std::convertible_to<Function, IntervalFunction> &&
      (!std::convertible_to<Function, std::string>)Interval(Function function)
      : rule_(IntervalFunction(std::move(function))) {}
  // NOLINTEND(google-explicit-constructor)

  // The rule, if it is of that kind; otherwise nullptr.
  const Time* time() const { return std::get_if<Time>(&rule_); }
  const IntervalFunction* function() const { return std::get_if<IntervalFunction>(&rule_); }

 private:
  std::variant<Time, IntervalFunction> rule_;
};

struct IntervalScheduleOptions {
  // Whether the end of training counts, too, if the interval does not end there.
  bool include_end_of_training = true;
  // If true, use the *_CHECKPOINT events (saving). If false, use the *_END events (evaluating),
  // where the end of training is FIT_END.
  bool checkpoint_events = true;
};

// Returns a function that says, at each event, whether it is time. The function remembers when it
// last said yes, so every user needs its own. Throws UsageError for an invalid interval.
std::function<bool(const State& state, Event event)> create_interval_scheduler(
    const Interval& interval, IntervalScheduleOptions options = {});

}  // namespace cairn
