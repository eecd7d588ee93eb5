#include <algorithm>

#include "cairn/error.h"
#include "cairn/schedulers/schedulers.h"

#include "schedulers/convert_time.h"
#include "schedulers/curves.h"

namespace cairn {
namespace {

// The height of the warmup's ramp; nullopt after the warmup. The scale_schedule_ratio does not
// scale the end of the warmup. With scale_warmup it scales the slope of the ramp.
std::optional<double> ramp(const State& state, const Time& t_warmup, bool scale_warmup,
                           double ssr) {
  const Time end = convert_time(t_warmup, state);
  if (current_time(state, end) >= end) return std::nullopt;
  const Time slope = scale_warmup ? convert_time(t_warmup, state, ssr) : end;
  return std::min(1.0, fraction_of(state, slope));
}

// `time` in the unit of `other` if they can be compared (batches and epochs); otherwise nullopt.
std::optional<double> comparable(const Time& time, const Time& other, const State& state) {
  if (time.unit() == other.unit()) return time.number();
  if (time.unit() == TimeUnit::kEpoch && other.unit() == TimeUnit::kBatch && state.dataloader_len) {
    return time.number() * static_cast<double>(*state.dataloader_len);
  }
  if (time.unit() == TimeUnit::kBatch && other.unit() == TimeUnit::kEpoch && state.dataloader_len) {
    return time.number() / static_cast<double>(*state.dataloader_len);
  }
  return std::nullopt;
}

// The fraction of the way from the end of the warmup to t_max, in [0, 1].
double after_warmup(const State& state, const Time& t_warmup, const Time& t_max, double ssr) {
  const Time from = convert_time(t_warmup, state);
  const Time to = convert_time(t_max, state, ssr);
  if (!(to > from)) return 0;
  const double way = (to - from).number();
  return std::min(1.0, (current_time(state, from) - from).number() / way);
}

void check(const State& state, const Time& t_warmup, const Time& t_max, double ssr) {
  const Time warmup = convert_time(t_warmup, state);
  const Time end = convert_time(t_max, state, ssr);
  if (warmup.unit() != end.unit()) {
    throw UsageError("t_warmup (" + t_warmup.to_string() + ") and t_max (" + t_max.to_string() +
                     ") must be in units that can be compared; they come out as " +
                     warmup.to_string() + " and " + end.to_string());
  }
  const Time& run = *state.max_duration;  // exists, or convert_time() would have thrown
  const std::optional<double> length = comparable(end, run, state);
  if (length && *length < run.number()) {
    throw UsageError("t_max (" + end.to_string() + ") must not be less than max_duration (" +
                     run.to_string() + "): the learning rate would stay at its end");
  }
}

// For every scheduler with a warmup except MultiStep: checks the options, then returns `top` times
// the ramp during the warmup, and the value of `after` afterwards.
template <class Options, class After>
double with_warmup(const State& state, double ssr, const Options& options, double top,
                   After after) {
  check(state, options.t_warmup, options.t_max, ssr);
  if (const auto height = ramp(state, options.t_warmup, options.scale_warmup, ssr)) {
    return *height * top;
  }
  return after(after_warmup(state, options.t_warmup, options.t_max, ssr));
}

}  // namespace

double MultiStepWithWarmupScheduler::operator()(const State& state, double ssr) const {
  const auto height = ramp(state, options_.t_warmup, options_.scale_warmup, ssr);
  return height ? *height : multi_step(state, options_.milestones, options_.gamma, ssr);
}

double ConstantWithWarmupScheduler::operator()(const State& state, double ssr) const {
  return with_warmup(state, ssr, options_, options_.alpha,
                     [this](double /*part*/) { return options_.alpha; });
}

double LinearWithWarmupScheduler::operator()(const State& state, double ssr) const {
  return with_warmup(state, ssr, options_, options_.alpha_i, [this](double part) {
    return options_.alpha_i + part * (options_.alpha_f - options_.alpha_i);
  });
}

double CosineAnnealingWithWarmupScheduler::operator()(const State& state, double ssr) const {
  return with_warmup(state, ssr, options_, 1.0,
                     [this](double part) { return cosine_anneal(part, options_.alpha_f); });
}

double PolynomialWithWarmupScheduler::operator()(const State& state, double ssr) const {
  return with_warmup(state, ssr, options_, 1.0, [this](double part) {
    return polynomial_anneal(part, options_.power, options_.alpha_f);
  });
}

}  // namespace cairn
