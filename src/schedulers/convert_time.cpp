#include "schedulers/convert_time.h"

#include "cairn/error.h"

namespace cairn {
namespace {

std::int64_t epoch_length(const State& state, const Time& time) {
  if (state.dataloader_len) return *state.dataloader_len;
  throw UsageError("a scheduler's time of " + time.to_string() +
                   " needs the number of batches of an epoch, and the train loader does not say "
                   "it; give train_subset_num_batches, or use batches (\"ba\")");
}

std::int64_t truncated(double count) { return static_cast<std::int64_t>(count); }

}  // namespace

Time convert_time(const Time& time, const State& state, double ssr) {
  if (!state.max_duration) {
    throw UsageError("schedulers need a max_duration; give one to the Trainer or to fit()");
  }
  const Time& run = *state.max_duration;
  switch (time.unit()) {
    case TimeUnit::kSecond:
      throw UsageError("a scheduler's time cannot be in seconds: " + time.to_string());
    case TimeUnit::kDuration:
      if (run.unit() != TimeUnit::kEpoch) {
        return {truncated(time.fraction() * run.number()), run.unit()};
      }
      return Time::batches(truncated(
          time.fraction() * static_cast<double>(epoch_length(state, time)) * run.number()));
    case TimeUnit::kEpoch:
      return Time::batches(
          truncated(static_cast<double>(time.value() * epoch_length(state, time)) * ssr));
    default:
      return {truncated(time.number() * ssr), time.unit()};
  }
}

Time current_time(const State& state, const Time& like) { return state.timestamp.get(like.unit()); }

double fraction_of(const State& state, const Time& whole) {
  if (whole.number() <= 0) {
    throw UsageError("a scheduler's time came out as " + whole.to_string() +
                     "; it must be more than 0 after scaling with scale_schedule_ratio");
  }
  return current_time(state, whole).number() / whole.number();
}

}  // namespace cairn
