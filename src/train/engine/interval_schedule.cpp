#include "train/engine/interval_schedule.h"

#include <cmath>

#include "cairn/error.h"

namespace cairn {
namespace {

Moment moment_of(TimeUnit unit) {
  switch (unit) {
    case TimeUnit::kEpoch:
      return Moment::kEpoch;
    case TimeUnit::kIteration:
      return Moment::kIteration;
    default:
      return Moment::kBatch;
  }
}

bool is_multiple_between(const Timestamp& previous, const Timestamp& now, const Time& interval) {
  const auto periods = [&](const Timestamp& at) {
    return at.get(interval.unit()).value() / interval.value();
  };
  return periods(previous) != periods(now);
}

// fraction * whole, rounded up, at least 1. A product that is whole except for rounding error (100
// * 0.07 == 7.000000000000001) counts as that whole number.
std::int64_t part_of(double fraction, double whole) {
  const double product = fraction * whole;
  const double nearest = std::round(product);
  const bool is_whole = std::fabs(product - nearest) <= 1e-12 * std::fabs(product);
  const double part = std::max(is_whole ? nearest : std::ceil(product), 1.0);
  return part < 9e18 ? static_cast<std::int64_t>(part) : INT64_MAX;
}

}  // namespace

IntervalScheduler::IntervalScheduler(Time interval, FinalMoment final_moment)
    : interval_(interval), final_moment_(final_moment) {
  if (interval_.unit() == TimeUnit::kDuration && !(interval_.fraction() > 0)) {
    throw UsageError("interval " + interval_.to_string() +
                     ": a fraction of the run must be above zero");
  }
}

bool IntervalScheduler::operator()(const IntervalState& state, Moment moment) {
  const bool is_fraction = interval_.unit() == TimeUnit::kDuration;
  if (!is_fraction && interval_ <= 0) return false;
  // Forget last_batch_ if time was set back, or if this is the first moment of the batch.
  if (last_batch_ > state.now.batch ||
      (moment == Moment::kBatch && last_batch_ == state.now.batch)) {
    last_batch_.reset();
  }
  if (!state.previous) return false;
  if (is_end(state, moment)) return true;
  if (!(is_fraction ? is_fraction_crossed(state, moment) : is_crossed(state, moment))) return false;
  last_batch_ = state.now.batch;
  return true;
}

bool IntervalScheduler::is_end(const IntervalState& state, Moment moment) const {
  const bool is_final = final_moment_ == FinalMoment::kFitEnd
                            ? moment == Moment::kFitEnd
                            : final_moment_ == FinalMoment::kStep && moment != Moment::kFitEnd;
  return is_final && state.max_duration && state.now >= *state.max_duration &&
         last_batch_ != state.now.batch;
}

bool IntervalScheduler::is_crossed(const IntervalState& state, Moment moment) const {
  return moment == moment_of(interval_.unit()) &&
         is_multiple_between(*state.previous, state.now, interval_);
}

bool IntervalScheduler::is_fraction_crossed(const IntervalState& state, Moment moment) const {
  if (!state.max_duration) {
    throw UsageError("interval " + interval_.to_string() + " needs a max_duration");
  }
  const Time& whole = *state.max_duration;
  const double fraction = interval_.fraction();
  const bool in_iterations = whole.unit() == TimeUnit::kIteration;
  if (moment != (in_iterations ? Moment::kIteration : Moment::kBatch)) return false;
  if (whole.unit() == TimeUnit::kEpoch) {
    if (!state.dataloader_len) {
      throw UsageError("interval " + interval_.to_string() + " of " + whole.to_string() +
                       " requires the dataloader to be sized; give the interval in batches");
    }
    const auto batches = whole.number() * static_cast<double>(*state.dataloader_len);
    return state.now.batch % part_of(fraction, batches) == 0;
  }
  if (whole.unit() == TimeUnit::kBatch) {
    return state.now.batch % part_of(fraction, whole.number()) == 0;
  }
  return is_multiple_between(*state.previous, state.now,
                             {part_of(fraction, whole.number()), whole.unit()});
}

}  // namespace cairn
