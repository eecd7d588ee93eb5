// PyTorch's own learning-rate schedulers (torch.optim.lr_scheduler). These schedulers count their
// steps. If a Trainer has one of them, it steps all its schedulers once per epoch, unless
// step_schedulers_every_batch says otherwise.
//
// Use them for runs that continue from Python, and for recipes in PyTorch's terms. Composer's
// schedulers (cairn/schedulers/schedulers.h) take times such as "30ep", and need no count of steps.
//
// A scale_schedule_ratio scales step_size, milestones and T_max (truncated to whole steps), and
// replaces ExponentialLR's gamma by gamma^(1 / ratio).
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "cairn/export.h"
#include "cairn/train/empty_braces.h"
#include "cairn/train/scheduler.h"

namespace CAIRN_PUBLIC cairn {

// Multiplies the learning rate by gamma every step_size steps. Throws UsageError for a step_size
// below 1.
struct StepLROptions {
  std::int64_t step_size = 0;  // required: 1 or more
  double gamma = 0.1;
};
class StepLR final : public TorchScheduler {
 public:
  explicit StepLR(StepLROptions options);
  explicit StepLR(EmptyBraces) : StepLR(StepLROptions()) {}  // StepLR({.step_size = 10})
  std::unique_ptr<RunningScheduler> attach(torch::optim::Optimizer& optimizer,
                                           double scale) const override;

 private:
  StepLROptions options_;
};

// Multiplies the rate by gamma at each milestone, once for each time that the milestone is listed.
struct MultiStepLROptions {
  std::vector<std::int64_t> milestones = {};  // in steps
  double gamma = 0.1;
};
class MultiStepLR final : public TorchScheduler {
 public:
  explicit MultiStepLR(MultiStepLROptions options) : options_(std::move(options)) {}
  explicit MultiStepLR(EmptyBraces)  // MultiStepLR({.milestones = {10, 20}})
      : MultiStepLR(MultiStepLROptions()) {}
  std::unique_ptr<RunningScheduler> attach(torch::optim::Optimizer& optimizer,
                                           double scale) const override;

 private:
  MultiStepLROptions options_;
};

// Multiplies the rate by gamma every step. If steps are batches, gamma is very near to 1.
struct ExponentialLROptions {
  double gamma = 0;  // required: more than 0
};
class ExponentialLR final : public TorchScheduler {
 public:
  explicit ExponentialLR(ExponentialLROptions options);
  explicit ExponentialLR(EmptyBraces)  // ExponentialLR({.gamma = 0.9})
      : ExponentialLR(ExponentialLROptions()) {}
  std::unique_ptr<RunningScheduler> attach(torch::optim::Optimizer& optimizer,
                                           double scale) const override;

 private:
  ExponentialLROptions options_;
};

// A cosine from the initial rate to eta_min over T_max steps, and back over the next T_max steps.
// Set T_max to the number of steps of the run, or the rate rises again before the end of the run.
struct CosineAnnealingLROptions {
  std::int64_t T_max = 0;  // NOLINT(readability-identifier-naming): PyTorch's. Required: 1 or more
  double eta_min = 0;      // a rate, not a multiplier
};
class CosineAnnealingLR final : public TorchScheduler {
 public:
  explicit CosineAnnealingLR(CosineAnnealingLROptions options);
  explicit CosineAnnealingLR(EmptyBraces)  // CosineAnnealingLR({.T_max = 20})
      : CosineAnnealingLR(CosineAnnealingLROptions()) {}
  std::unique_ptr<RunningScheduler> attach(torch::optim::Optimizer& optimizer,
                                           double scale) const override;

 private:
  CosineAnnealingLROptions options_;
};

}  // namespace cairn
