// Composer's learning-rate schedulers (composer/optim/scheduler.py).
//
// Each scheduler is a pure function from the State to the multiplier of the initial learning rate,
// called alpha below. In the formulas, t is the state's time in the unit of the option that t is
// compared with. Times may be in any unit except seconds. "dur" is a fraction of max_duration.
// Epochs are counted in batches, which needs a train loader of known size. A scale_schedule_ratio
// multiplies all times that are not in "dur".
//
// As in Composer, the multiplier is computed after the optimizer's step and before the time
// advances. So each batch uses the multiplier for the time at which the previous batch began.
//
// Options without an initializer are required. Calling a scheduler throws UsageError for a time
// that cannot be converted, and in the cases that the comment of its class names.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "cairn/export.h"
#include "cairn/time.h"
#include "cairn/train/empty_braces.h"
#include "cairn/train/scheduler.h"

namespace CAIRN_PUBLIC cairn {

// Which one? LinearWithWarmup or CosineAnnealingWithWarmup if the length of the run is known, as in
// most recipes; MultiStep to reproduce older recipes; Exponential for runs without a planned end.
//
// Schedulers are cheap to copy and hold no state, so several Trainers may share one. Options are
// checked when the scheduler is made or first called. A t_max of "1dur" follows max_duration: if a
// later fit() extends the run, the schedule stretches, too.

// A required number: the constructor throws UsageError if it still has this value.
inline constexpr double kRequired = std::numeric_limits<double>::quiet_NaN();

// gamma^floor(t / step_size): equal steps down.
struct StepSchedulerOptions {
  Time step_size;      // required
  double gamma = 0.1;  // the factor of the rate at each step
};
class StepScheduler final : public ComposerScheduler {
 public:
  explicit StepScheduler(const StepSchedulerOptions& options) : options_(options) {}
  template <class Options = StepSchedulerOptions>
  explicit StepScheduler(EmptyBraces)  // StepScheduler({.step_size = "10ep"})
      : StepScheduler(Options()) {}
  double operator()(const State& state, double ssr) const override;

 private:
  StepSchedulerOptions options_;
};

// gamma^(number of milestones reached): steps at chosen times, the classic for image models.
struct MultiStepSchedulerOptions {
  std::vector<Time> milestones;  // required; in any order, "0.5dur" among them
  double gamma = 0.1;
};
class MultiStepScheduler final : public ComposerScheduler {
 public:
  explicit MultiStepScheduler(MultiStepSchedulerOptions options) : options_(std::move(options)) {}
  explicit MultiStepScheduler(EmptyBraces)  // MultiStepScheduler({.milestones = {"10ep"}})
      : MultiStepScheduler(MultiStepSchedulerOptions()) {}
  double operator()(const State& state, double ssr) const override;

 private:
  MultiStepSchedulerOptions options_;
};

// alpha before t_max, and 1 from then on. With t_max below the run's length it is a first stage at
// another rate.
struct ConstantSchedulerOptions {
  double alpha = 1.0;  // 1: the initial rate itself
  Time t_max = "1dur";
};
class ConstantScheduler final : public ComposerScheduler {
 public:
  explicit ConstantScheduler(ConstantSchedulerOptions options = {}) : options_(options) {}
  explicit ConstantScheduler(EmptyBraces)  // ConstantScheduler({.alpha = 0.5})
      : ConstantScheduler(ConstantSchedulerOptions()) {}
  double operator()(const State& state, double ssr) const override;

 private:
  ConstantSchedulerOptions options_;
};

// A straight line from alpha_i to alpha_f over t_max, then alpha_f. The usual choice for
// fine-tuning.
struct LinearSchedulerOptions {
  double alpha_i = 1.0;
  double alpha_f = 0.0;  // 0.1 if the model is to keep learning at the end
  Time t_max = "1dur";
};
class LinearScheduler final : public ComposerScheduler {
 public:
  explicit LinearScheduler(LinearSchedulerOptions options = {}) : options_(options) {}
  explicit LinearScheduler(EmptyBraces)  // LinearScheduler({.alpha_f = 0.1})
      : LinearScheduler(LinearSchedulerOptions()) {}
  double operator()(const State& state, double ssr) const override;

 private:
  LinearSchedulerOptions options_;
};

// gamma^(t / decay_period), continuously. The curve has no end, so it suits runs of unknown length.
struct ExponentialSchedulerOptions {
  double gamma = kRequired;  // 0.97: 3 % less after each decay_period
  Time decay_period = "1ep";
};
class ExponentialScheduler final : public ComposerScheduler {
 public:
  // Throws UsageError without gamma.
  explicit ExponentialScheduler(ExponentialSchedulerOptions options);
  explicit ExponentialScheduler(EmptyBraces)  // ExponentialScheduler({.gamma = 0.9})
      : ExponentialScheduler(ExponentialSchedulerOptions()) {}
  double operator()(const State& state, double ssr) const override;

 private:
  ExponentialSchedulerOptions options_;
};

// Half a cosine from 1 to alpha_f over t_max, then alpha_f. Stays high for long and lands softly.
// The shape depends on the length: extending the run moves the whole curve.
struct CosineAnnealingSchedulerOptions {
  Time t_max = "1dur";
  double alpha_f = 0.0;
};
class CosineAnnealingScheduler final : public ComposerScheduler {
 public:
  explicit CosineAnnealingScheduler(CosineAnnealingSchedulerOptions options = {})
      : options_(options) {}
  explicit CosineAnnealingScheduler(EmptyBraces)  // CosineAnnealingScheduler({.t_max = "20ep"})
      : CosineAnnealingScheduler(CosineAnnealingSchedulerOptions()) {}
  double operator()(const State& state, double ssr) const override;

 private:
  CosineAnnealingSchedulerOptions options_;
};

// The cosine again and again: the first cycle takes t_0, each next one t_mult times as long
// (truncated). The end of a cycle is a good moment for a checkpoint. Throws UsageError for a cycle
// of length 0.
struct CosineAnnealingWarmRestartsSchedulerOptions {
  Time t_0;             // required
  double t_mult = 1.0;  // 2: cycles of 1, 2, 4, ... times t_0
  double alpha_f = 0.0;
};
class CosineAnnealingWarmRestartsScheduler final : public ComposerScheduler {
 public:
  explicit CosineAnnealingWarmRestartsScheduler(CosineAnnealingWarmRestartsSchedulerOptions options)
      : options_(options) {}
  template <class Options = CosineAnnealingWarmRestartsSchedulerOptions>
  explicit CosineAnnealingWarmRestartsScheduler(EmptyBraces)  // ...({.t_0 = "5ep"})
      : CosineAnnealingWarmRestartsScheduler(Options()) {}
  double operator()(const State& state, double ssr) const override;

 private:
  CosineAnnealingWarmRestartsSchedulerOptions options_;
};

// alpha_f + (1 - alpha_f) * (1 - t / t_max)^power, then alpha_f. A power of 1 is a straight line;
// 2 or 3 drop early.
struct PolynomialSchedulerOptions {
  double power = kRequired;
  Time t_max = "1dur";
  double alpha_f = 0.0;
};
class PolynomialScheduler final : public ComposerScheduler {
 public:
  // Throws UsageError without power.
  explicit PolynomialScheduler(PolynomialSchedulerOptions options);
  explicit PolynomialScheduler(EmptyBraces)  // PolynomialScheduler({.power = 2})
      : PolynomialScheduler(PolynomialSchedulerOptions()) {}
  double operator()(const State& state, double ssr) const override;

 private:
  PolynomialSchedulerOptions options_;
};

// --- With warmup ---
//
// alpha rises in a straight line from 0 over t_warmup. The rest of the schedule then runs between
// t_warmup and t_max. The scale_schedule_ratio does not scale the end of the warmup. With
// scale_warmup it scales the slope: for a ratio below 1 alpha reaches the top early and stays at
// the top.
//
// Use a warmup for large rates, and for optimizers whose first estimates are poor (Adam). A few
// percent of the run is usual.
//
// All except MultiStepWithWarmup throw UsageError if t_warmup and t_max have different units (after
// conversion), or if t_max is less than max_duration.

// 1 at the top, then as MultiStepScheduler, with milestones counted from the start of the run.
struct MultiStepWithWarmupSchedulerOptions {
  Time t_warmup;  // required
  std::vector<Time> milestones;
  double gamma = 0.1;
  bool scale_warmup = false;
};
class MultiStepWithWarmupScheduler final : public ComposerScheduler {
 public:
  explicit MultiStepWithWarmupScheduler(MultiStepWithWarmupSchedulerOptions options)
      : options_(std::move(options)) {}
  template <class Options = MultiStepWithWarmupSchedulerOptions>
  explicit MultiStepWithWarmupScheduler(EmptyBraces)  // ...({.t_warmup = "1ep"})
      : MultiStepWithWarmupScheduler(Options()) {}
  double operator()(const State& state, double ssr) const override;

 private:
  MultiStepWithWarmupSchedulerOptions options_;
};

// alpha at the top and from then on. (ConstantScheduler goes to 1 at t_max; this one does not.)
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
  template <class Options = ConstantWithWarmupSchedulerOptions>
  explicit ConstantWithWarmupScheduler(EmptyBraces)  // ...({.t_warmup = "1ep"})
      : ConstantWithWarmupScheduler(Options()) {}
  double operator()(const State& state, double ssr) const override;

 private:
  ConstantWithWarmupSchedulerOptions options_;
};

// alpha_i at the top, then a straight line to alpha_f: the usual schedule for fine-tuning language
// models.
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
  template <class Options = LinearWithWarmupSchedulerOptions>
  explicit LinearWithWarmupScheduler(EmptyBraces)  // LinearWithWarmupScheduler({.t_warmup = "1ep"})
      : LinearWithWarmupScheduler(Options()) {}
  double operator()(const State& state, double ssr) const override;

 private:
  LinearWithWarmupSchedulerOptions options_;
};

// 1 at the top, then half a cosine to alpha_f: the usual schedule for training large language
// models, mostly with an alpha_f of 0.1.
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
  template <class Options = CosineAnnealingWithWarmupSchedulerOptions>
  explicit CosineAnnealingWithWarmupScheduler(EmptyBraces)  // ...({.t_warmup = "1ep"})
      : CosineAnnealingWithWarmupScheduler(Options()) {}
  double operator()(const State& state, double ssr) const override;

 private:
  CosineAnnealingWithWarmupSchedulerOptions options_;
};

// 1 at the top, then as PolynomialScheduler to alpha_f.
struct PolynomialWithWarmupSchedulerOptions {
  Time t_warmup;
  double power = 2.0;  // 1: LinearWithWarmup
  Time t_max = "1dur";
  double alpha_f = 0.0;
  bool scale_warmup = false;
};
class PolynomialWithWarmupScheduler final : public ComposerScheduler {
 public:
  explicit PolynomialWithWarmupScheduler(PolynomialWithWarmupSchedulerOptions options)
      : options_(options) {}
  template <class Options = PolynomialWithWarmupSchedulerOptions>
  explicit PolynomialWithWarmupScheduler(EmptyBraces)  // ...({.t_warmup = "1ep"})
      : PolynomialWithWarmupScheduler(Options()) {}
  double operator()(const State& state, double ssr) const override;

 private:
  PolynomialWithWarmupSchedulerOptions options_;
};

// A scheduler from any function (state, ssr) -> multiplier. Throws UsageError for an empty
// function. The function is called once per batch (or epoch), on the training thread. The function
// must depend on the state's time only, or a resumed run will continue with another rate.
std::shared_ptr<ComposerScheduler> function_scheduler(
    std::function<double(const State& state, double ssr)> function);

// Attaches a ComposerScheduler to an optimizer, for loops of your own. The Trainer does this for
// its schedulers. `scheduler`, `state` and `optimizer` must outlive the result. `ssr` is the
// scale_schedule_ratio.
std::unique_ptr<RunningScheduler> attach_lambda_lr(const ComposerScheduler& scheduler,
                                                   const State& state,
                                                   torch::optim::Optimizer& optimizer, double ssr);

}  // namespace cairn
