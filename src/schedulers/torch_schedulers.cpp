#include "cairn/schedulers/torch_schedulers.h"

#include <cmath>
#include <numbers>

#include "schedulers/running.h"

namespace cairn {
namespace {

// A number of steps times the scale_schedule_ratio, in whole steps.
std::int64_t scaled(std::int64_t steps, double scale, const char* what) {
  const auto result = static_cast<std::int64_t>(static_cast<double>(steps) * scale);
  if (result >= 1) return result;
  throw UsageError(
      fmt::format("{} of {} becomes {} with a scale_schedule_ratio of {}; it must be "
                  "1 or more",
                  what, steps, result, scale));
}

void require_positive(double value, const char* what) {
  if (!(value > 0)) throw UsageError(fmt::format("{} must be more than 0, found {}", what, value));
}

struct StepRule {
  static constexpr const char* kName = "StepLR";
  std::int64_t step_size;
  double gamma;

  double next(std::int64_t step, double lr, double /*base_lr*/) const {
    return step == 0 || step % step_size != 0 ? lr : lr * gamma;
  }
  static void visit_all(auto& visitor, auto& self) {
    visitor.steps("step_size", self.step_size);
    visitor.number("gamma", self.gamma);
  }
  void visit(SchedulerStateWriter& writer) const { visit_all(writer, *this); }
  void visit(SchedulerStateReader& reader) { visit_all(reader, *this); }
  void visit_last(auto& /*visitor*/, std::size_t /*groups*/) const {}
};

struct MultiStepRule {
  static constexpr const char* kName = "MultiStepLR";
  std::map<std::int64_t, std::int64_t> milestones;
  double gamma;

  double next(std::int64_t step, double lr, double /*base_lr*/) const {
    const auto found = milestones.find(step);
    if (found == milestones.end()) return lr;
    return lr * std::pow(gamma, static_cast<double>(found->second));
  }
  static void visit_all(auto& visitor, auto& self) {
    visitor.counts("milestones", self.milestones);
    visitor.number("gamma", self.gamma);
  }
  void visit(SchedulerStateWriter& writer) const { visit_all(writer, *this); }
  void visit(SchedulerStateReader& reader) { visit_all(reader, *this); }
  void visit_last(auto& /*visitor*/, std::size_t /*groups*/) const {}
};

struct ExponentialRule {
  static constexpr const char* kName = "ExponentialLR";
  double gamma;

  double next(std::int64_t step, double lr, double /*base_lr*/) const {
    return step == 0 ? lr : lr * gamma;
  }
  void visit(SchedulerStateWriter& writer) const { writer.number("gamma", gamma); }
  void visit(SchedulerStateReader& reader) { reader.number("gamma", gamma); }
  void visit_last(auto& /*visitor*/, std::size_t /*groups*/) const {}
};

// Computes each rate from the previous one, so it also follows rates that were changed by hand.
struct CosineRule {
  static constexpr const char* kName = "CosineAnnealingLR";
  std::int64_t t_max;
  double eta_min;

  double next(std::int64_t step, double lr, double base_lr) const {
    if (step == 0) return lr;
    const double angle = std::numbers::pi / static_cast<double>(t_max);
    if ((step - 1 - t_max) % (2 * t_max) == 0) {  // the step up from the lowest point
      return lr + (base_lr - eta_min) * (1 - std::cos(angle)) / 2;
    }
    const auto height = [&](std::int64_t at) {
      return 1 + std::cos(angle * static_cast<double>(at));
    };
    return height(step) / height(step - 1) * (lr - eta_min) + eta_min;
  }
  static void visit_all(auto& visitor, auto& self) {
    visitor.steps("T_max", self.t_max);
    visitor.number("eta_min", self.eta_min);
  }
  void visit(SchedulerStateWriter& writer) const { visit_all(writer, *this); }
  void visit(SchedulerStateReader& reader) { visit_all(reader, *this); }
  void visit_last(auto& /*visitor*/, std::size_t /*groups*/) const {}
};

template <class Rule>
std::unique_ptr<RunningScheduler> run(torch::optim::Optimizer& optimizer, Rule rule) {
  return std::make_unique<Running<Rule>>(optimizer, std::move(rule));
}

}  // namespace

StepLR::StepLR(StepLROptions options) : options_(options) {
  require_positive(static_cast<double>(options.step_size), "StepLR: step_size");
}

std::unique_ptr<RunningScheduler> StepLR::attach(torch::optim::Optimizer& optimizer,
                                                 double scale) const {
  return run(optimizer,
             StepRule{scaled(options_.step_size, scale, "StepLR: step_size"), options_.gamma});
}

std::unique_ptr<RunningScheduler> MultiStepLR::attach(torch::optim::Optimizer& optimizer,
                                                      double scale) const {
  MultiStepRule rule{{}, options_.gamma};
  for (const std::int64_t milestone : options_.milestones) {
    ++rule.milestones[static_cast<std::int64_t>(static_cast<double>(milestone) * scale)];
  }
  return run(optimizer, std::move(rule));
}

ExponentialLR::ExponentialLR(ExponentialLROptions options) : options_(options) {
  require_positive(options.gamma, "ExponentialLR: gamma");
}

std::unique_ptr<RunningScheduler> ExponentialLR::attach(torch::optim::Optimizer& optimizer,
                                                        double scale) const {
  require_positive(scale, "scale_schedule_ratio");
  const double gamma = scale == 1 ? options_.gamma : std::pow(options_.gamma, 1 / scale);
  return run(optimizer, ExponentialRule{gamma});
}

CosineAnnealingLR::CosineAnnealingLR(CosineAnnealingLROptions options) : options_(options) {
  require_positive(static_cast<double>(options.T_max), "CosineAnnealingLR: T_max");
}

std::unique_ptr<RunningScheduler> CosineAnnealingLR::attach(torch::optim::Optimizer& optimizer,
                                                            double scale) const {
  return run(optimizer, CosineRule{scaled(options_.T_max, scale, "CosineAnnealingLR: T_max"),
                                   options_.eta_min});
}

}  // namespace cairn
