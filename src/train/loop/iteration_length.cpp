#include "train/loop/iteration_length.h"

#include "cairn/error.h"

namespace cairn {

void check_iteration_length(const State& state) {
  const auto& length = state.iteration_length;
  if (length && ((length->unit() != TimeUnit::kEpoch && length->unit() != TimeUnit::kToken) ||
                 length->value() < 1)) {
    throw UsageError("state.iteration_length is " + length->to_string() +
                     "; it must be 1 or more, in ep or tok");
  }
}

void require_iteration_length(const State& state, const Time& time, const std::string& what,
                              const std::string& consequence) {
  if (time.unit() != TimeUnit::kIteration || state.iteration_length) return;
  throw UsageError(
      what + " is " + time.to_string() + ", and nothing says how long an iteration is, so that " +
      consequence +
      ": set trainer.state().iteration_length = \"2ep\" (in ep or tok) before fit(), or give " +
      what + " in ep, ba, sp or tok");
}

void require_iteration_length(const State& state, const Interval& interval,
                              const std::string& what) {
  const Time* time = interval.time();
  if (time == nullptr || *time <= 0) return;
  require_iteration_length(state, *time, what, "it would never come");
}

}  // namespace cairn
