// Composer's learning-rate schedulers (composer/optim/scheduler.py).
//
// Each is a pure function of the State to the multiplier of the initial learning rate, which is
// called alpha below. t is the state's time in the unit of the option it is compared with. Times
// may be in any unit but seconds: "dur" is a fraction of max_duration, epochs count as batches
// (which needs a sized train loader). With a scale_schedule_ratio, times that are not in "dur" are
// multiplied by it.
//
// The multiplier in effect during a batch is the one of the batch before, as in Composer: it is
// computed after the optimizer's step and before the time advances.
//
// Options without an initializer are required. All throw UsageError when they are called: for a
// time that cannot be converted, and for what the class says.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "cairn/time.h"
#include "cairn/train/scheduler.h"

namespace cairn {

// A required number: the constructor throws UsageError when it is still this.
inline constexpr double kRequired = std::numeric_limits<double>::quiet_NaN();

// gamma^floor(t / step_size).
struct StepSchedulerOptions {
  Time step_size;
  double gamma = 0.1;
};
class StepScheduler final : public ComposerScheduler {
 public:
  explicit StepScheduler(const StepSchedulerOptions& options) : options_(options) {}
  double operator()(const State& state, double ssr) const override;

 private:
  StepSchedulerOptions options_;
};

// gamma^(number of milestones reached).
struct MultiStepSchedulerOptions {
  std::vector<Time> milestones;
  double gamma = 0.1;
};
class MultiStepScheduler final : public ComposerScheduler {
 public:
  explicit MultiStepScheduler(MultiStepSchedulerOptions options) : options_(std::move(options)) {}
  double operator()(const State& state, double ssr) const override;

 private:
  MultiStepSchedulerOptions options_;
};

// alpha before t_max, 1 from then on.
struct ConstantSchedulerOptions {
  double alpha = 1.0;
  Time t_max = "1dur";
};
class ConstantScheduler final : public ComposerScheduler {
 public:
  explicit ConstantScheduler(ConstantSchedulerOptions options = {}) : options_(options) {}
  double operator()(const State& state, double ssr) const override;

 private:
  ConstantSchedulerOptions options_;
};

// From alpha_i to alpha_f on a straight line over t_max, then alpha_f.
struct LinearSchedulerOptions {
  double alpha_i = 1.0;
  double alpha_f = 0.0;
  Time t_max = "1dur";
};
class LinearScheduler final : public ComposerScheduler {
 public:
  explicit LinearScheduler(LinearSchedulerOptions options = {}) : options_(options) {}
  double operator()(const State& state, double ssr) const override;

 private:
  LinearSchedulerOptions options_;
};

// gamma^(t / decay_period), not in steps.
struct ExponentialSchedulerOptions {
  double gamma = kRequired;
  Time decay_period = "1ep";
};
class ExponentialScheduler final : public ComposerScheduler {
 public:
  explicit ExponentialScheduler(ExponentialSchedulerOptions options);
  double operator()(const State& state, double ssr) const override;

 private:
  ExponentialSchedulerOptions options_;
};

// From 1 to alpha_f on half a cosine over t_max, then alpha_f.
struct CosineAnnealingSchedulerOptions {
  Time t_max = "1dur";
  double alpha_f = 0.0;
};
class CosineAnnealingScheduler final : public ComposerScheduler {
 public:
  explicit CosineAnnealingScheduler(CosineAnnealingSchedulerOptions options = {})
      : options_(options) {}
  double operator()(const State& state, double ssr) const override;

 private:
  CosineAnnealingSchedulerOptions options_;
};

// The cosine over and over: a first cycle of t_0, each next one t_mult times as long (truncated).
// UsageError for a cycle of length 0.
struct CosineAnnealingWarmRestartsSchedulerOptions {
  Time t_0;
  double t_mult = 1.0;
  double alpha_f = 0.0;
};
class CosineAnnealingWarmRestartsScheduler final : public ComposerScheduler {
 public:
  explicit CosineAnnealingWarmRestartsScheduler(CosineAnnealingWarmRestartsSchedulerOptions options)
      : options_(options) {}
  double operator()(const State& state, double ssr) const override;

 private:
  CosineAnnealingWarmRestartsSchedulerOptions options_;
};

// alpha_f + (1 - alpha_f) * (1 - t / t_max)^power, then alpha_f.
struct PolynomialSchedulerOptions {
  double power = kRequired;
  Time t_max = "1dur";
  double alpha_f = 0.0;
};
class PolynomialScheduler final : public ComposerScheduler {
 public:
  explicit PolynomialScheduler(PolynomialSchedulerOptions options);
  double operator()(const State& state, double ssr) const override;

 private:
  PolynomialSchedulerOptions options_;
};

// --- With warmup
// ----------------------------------------------------------------------------------
//
// alpha rises on a straight line from 0 over t_warmup; what follows is stretched between t_warmup
// and t_max. The end of the warmup is not scaled by the scale_schedule_ratio; with scale_warmup the
// slope is, so that for a ratio below 1 the top is reached early and held.
//
// All but MultiStepWithWarmup throw UsageError when t_warmup and t_max have different units (after
// conversion), and when t_max is less than max_duration.

// 1 at the top, then as MultiStepScheduler.
struct MultiStepWithWarmupSchedulerOptions {
  Time t_warmup;
  std::vector<Time> milestones;
  double gamma = 0.1;
  bool scale_warmup = false;
};
class MultiStepWithWarmupScheduler final : public ComposerScheduler {
 public:
  explicit MultiStepWithWarmupScheduler(MultiStepWithWarmupSchedulerOptions options)
      : options_(std::move(options)) {}
  double operator()(const State& state, double ssr) const override;

 private:
  MultiStepWithWarmupSchedulerOptions options_;
};

// alpha at the top and for ever after (ConstantScheduler goes to 1 at t_max, this one does not).
struct ConstantWithWarmupSchedulerOptions {
  Time t_warmup;
  double alpha = 1.0;
  Time t_max = "1dur";
  bool scale_warmup = false;
};
class ConstantWithWarmupScheduler final : public ComposerScheduler {
 public:
  explicit ConstantWithWarmupScheduler(ConstantWithWarmupSchedulerOptions options)
      : options_(options) {}
  double operator()(const State& state, double ssr) const override;

 private:
  ConstantWithWarmupSchedulerOptions options_;
};

// alpha_i at the top, then to alpha_f on a straight line.
struct LinearWithWarmupSchedulerOptions {
  Time t_warmup;
  double alpha_i = 1.0;
  double alpha_f = 0.0;
  Time t_max = "1dur";
  bool scale_warmup = false;
};
class LinearWithWarmupScheduler final : public ComposerScheduler {
 public:
  explicit LinearWithWarmupScheduler(LinearWithWarmupSchedulerOptions options)
      : options_(options) {}
  double operator()(const State& state, double ssr) const override;

 private:
  LinearWithWarmupSchedulerOptions options_;
};

// 1 at the top, then to alpha_f on half a cosine.
struct CosineAnnealingWithWarmupSchedulerOptions {
  Time t_warmup;
  Time t_max = "1dur";
  double alpha_f = 0.0;
  bool scale_warmup = false;
};
class CosineAnnealingWithWarmupScheduler final : public ComposerScheduler {
 public:
  explicit CosineAnnealingWithWarmupScheduler(CosineAnnealingWithWarmupSchedulerOptions options)
      : options_(options) {}
  double operator()(const State& state, double ssr) const override;

 private:
  CosineAnnealingWithWarmupSchedulerOptions options_;
};

// 1 at the top, then to alpha_f as PolynomialScheduler.
struct PolynomialWithWarmupSchedulerOptions {
  Time t_warmup;
  double power = 2.0;
  Time t_max = "1dur";
  double alpha_f = 0.0;
  bool scale_warmup = false;
};
class PolynomialWithWarmupScheduler final : public ComposerScheduler {
 public:
  explicit PolynomialWithWarmupScheduler(PolynomialWithWarmupSchedulerOptions options)
      : options_(options) {}
  double operator()(const State& state, double ssr) const override;

 private:
  PolynomialWithWarmupSchedulerOptions options_;
};

// Any function (state, ssr) -> multiplier. UsageError for an empty one.
std::shared_ptr<ComposerScheduler> function_scheduler(
    std::function<double(const State& state, double ssr)> function);

// A ComposerScheduler at work. `state` and `scheduler` must outlive the result.
std::unique_ptr<RunningScheduler> attach_lambda_lr(const ComposerScheduler& scheduler,
                                                   const State& state,
                                                   torch::optim::Optimizer& optimizer, double ssr);

}  // namespace cairn
