// How often: an epoch count, a time string, a Time, or a function of (state, event).
#pragma once

#include <concepts>
#include <functional>
#include <string>
#include <utility>
#include <variant>

#include "cairn/time.h"
#include "cairn/train/event.h"

namespace cairn {

class State;

// Asked at the events that the option looks at (of saving the *_checkpoint ones): whether it is
// time.
using IntervalFunction = std::function<bool(const State& state, Event event)>;

// `1` and "1ep" are every epoch, "100ba" every hundred batches, "0.1dur" ten times a run; 0 is
// never where that makes sense (eval_interval). Counts are those of the run, not of a fit() or
// since a resume: "100ba" falls on the same batches however often the run is stopped. A function
// decides for itself at each event, on the training thread; it must depend on the state alone.
class Interval {
 public:
  // NOLINTBEGIN(google-explicit-constructor)
  template <std::integral Int>
  requires(!std::same_as<Int, bool>) Interval(Int epochs)
      : rule_(Time::epochs(static_cast<std::int64_t>(epochs))) {}
  Interval(const char* text) : rule_(Time(text)) {}
  Interval(const std::string& text) : rule_(Time(text)) {}
  Interval(Time time) : rule_(time) {}
  template <class Function>
  requires std::convertible_to<Function, IntervalFunction> &&
      (!std::convertible_to<Function, std::string>)Interval(Function function)
      : rule_(IntervalFunction(std::move(function))) {}
  // NOLINTEND(google-explicit-constructor)

  // One of the two; nullptr for the other.
  const Time* time() const { return std::get_if<Time>(&rule_); }
  const IntervalFunction* function() const { return std::get_if<IntervalFunction>(&rule_); }

 private:
  std::variant<Time, IntervalFunction> rule_;
};

struct IntervalScheduleOptions {
  // Whether the end of training counts as well when the interval does not fall on it.
  bool include_end_of_training = true;
  // React to the *_CHECKPOINT events (saving); false: to the *_END events (evaluating), where the
  // end of training is FIT_END.
  bool checkpoint_events = true;
};

// The function that says, at each event, whether it is time. It remembers when it last fired, so
// every user needs one of its own. UsageError for an interval that cannot be.
std::function<bool(const State& state, Event event)> create_interval_scheduler(
    const Interval& interval, IntervalScheduleOptions options = {});

}  // namespace cairn
