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
#include "cairn/train/empty_braces.h"
#include "cairn/train/scheduler.h"

namespace cairn {

// Which one? LinearWithWarmup or CosineAnnealingWithWarmup where the length of the run is known,
// which is what most recipes use; MultiStep to reproduce older ones; Exponential for open ends.
//
// They are cheap to copy and hold no state: one may serve several Trainers. Options are checked
// when the class is made or first called. t_max of "1dur" follows max_duration, also when fit()
// prolongs the run, which moves the schedule.

// A required number: the constructor throws UsageError when it is still this.
inline constexpr double kRequired = std::numeric_limits<double>::quiet_NaN();

// gamma^floor(t / step_size): a stair of equal treads.
struct StepSchedulerOptions {
  Time step_size;      // required
  double gamma = 0.1;  // what each step multiplies the rate with
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

// gamma^(number of milestones reached): a stair whose steps you place, the classic of image models.
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

// alpha before t_max, 1 from then on. With t_max short of the run: a first stage at another rate.
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

// From alpha_i to alpha_f on a straight line over t_max, then alpha_f. The usual choice for
// fine-tuning.
struct LinearSchedulerOptions {
  double alpha_i = 1.0;
  double alpha_f = 0.0;  // 0.1 where the end of training is to go on learning
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

// gamma^(t / decay_period), not in steps. It has no end, so that it suits runs of unknown length.
struct ExponentialSchedulerOptions {
  double gamma = kRequired;  // 0.97: 3 % less each decay_period
  Time decay_period = "1ep";
};
class ExponentialScheduler final : public ComposerScheduler {
 public:
  // UsageError without gamma.
  explicit ExponentialScheduler(ExponentialSchedulerOptions options);
  explicit ExponentialScheduler(EmptyBraces)  // ExponentialScheduler({.gamma = 0.9})
      : ExponentialScheduler(ExponentialSchedulerOptions()) {}
  double operator()(const State& state, double ssr) const override;

 private:
  ExponentialSchedulerOptions options_;
};

// From 1 to alpha_f on half a cosine over t_max, then alpha_f. Stays high for long and lands
// softly. Its shape depends on the length: prolonging the run moves the whole curve.
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

// The cosine over and over: a first cycle of t_0, each next one t_mult times as long (truncated).
// The end of each cycle is a good moment for a checkpoint. UsageError for a cycle of length 0.
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

// alpha_f + (1 - alpha_f) * (1 - t / t_max)^power, then alpha_f: between a straight line (1) and
// an early drop (2, 3).
struct PolynomialSchedulerOptions {
  double power = kRequired;
  Time t_max = "1dur";
  double alpha_f = 0.0;
};
class PolynomialScheduler final : public ComposerScheduler {
 public:
  // UsageError without power.
  explicit PolynomialScheduler(PolynomialSchedulerOptions options);
  explicit PolynomialScheduler(EmptyBraces)  // PolynomialScheduler({.power = 2})
      : PolynomialScheduler(PolynomialSchedulerOptions()) {}
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
// For large rates and for optimizers whose first estimates are poor (Adam): some percent of the
// run.
//
// All but MultiStepWithWarmup throw UsageError when t_warmup and t_max have different units (after
// conversion), and when t_max is less than max_duration.

// 1 at the top, then as MultiStepScheduler, whose milestones count from the start of the run.
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
  template <class Options = ConstantWithWarmupSchedulerOptions>
  explicit ConstantWithWarmupScheduler(EmptyBraces)  // ...({.t_warmup = "1ep"})
      : ConstantWithWarmupScheduler(Options()) {}
  double operator()(const State& state, double ssr) const override;

 private:
  ConstantWithWarmupSchedulerOptions options_;
};

// alpha_i at the top, then to alpha_f on a straight line: the triangle of most language models'
// fine-tuning.
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

// 1 at the top, then to alpha_f on half a cosine: what large language models are trained with, most
// of them with an alpha_f of 0.1.
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

// 1 at the top, then to alpha_f as PolynomialScheduler.
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

// Any function (state, ssr) -> multiplier. UsageError for an empty one. Called once a batch (or an
// epoch), on the training thread; it must depend on the state's time alone, or a resumed run will
// not go on where it was.
std::shared_ptr<ComposerScheduler> function_scheduler(
    std::function<double(const State& state, double ssr)> function);

// A ComposerScheduler at work, for loops of your own: the Trainer calls it for its schedulers.
// `state` and `scheduler` must outlive the result, and so must `optimizer`. `ssr` is the
// scale_schedule_ratio.
std::unique_ptr<RunningScheduler> attach_lambda_lr(const ComposerScheduler& scheduler,
                                                   const State& state,
                                                   torch::optim::Optimizer& optimizer, double ssr);

}  // namespace cairn
