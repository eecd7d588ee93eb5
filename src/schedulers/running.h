// The part of PyTorch's LRScheduler (torch 2.6) that all classes share; a Rule is one class's
// formula.
//
//  1. Construction takes each group's initial learning rate as its base and steps once, so the
//     rates of step 0 are in effect before the first batch.
//  2. step() counts, and then applies the formula to each group's present rate.
//  3. The state has every attribute except the optimizer: the class's own attributes first, then
//     the common ones.
#pragma once

#include <fmt/format.h>
#include <torch/torch.h>

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cairn/error.h"
#include "cairn/train/optimizer.h"
#include "cairn/train/scheduler.h"

#include "schedulers/scheduler_state.h"

namespace cairn {

// A Rule has
//   kName                                       PyTorch's class name
//   double next(step, lr, base_lr) const        the rate of step number `step` (0, 1, ...)
//   kDependsOnTime                              if next() is a function of the state's time
//   void visit(visitor)                         its entries, see scheduler_state.h
//   void visit_last(visitor, groups)            entries that come after the common ones
template <class Rule>
class Running final : public RunningScheduler {
 public:
  Running(torch::optim::Optimizer& optimizer, Rule rule)
      : optimizer_(optimizer), rule_(std::move(rule)) {
    counts_.base_lrs = initial_learning_rates(optimizer);
    step();
  }

  std::string name() const override { return Rule::kName; }

  void step() override {
    ++counts_.step_count;
    ++counts_.last_epoch;
    std::vector<double> rates = learning_rates(optimizer_);
    if (rates.size() != counts_.base_lrs.size()) {
      throw UsageError(
          fmt::format("{}: the optimizer has {} parameter groups, it had {} when the "
                      "scheduler was attached",
                      Rule::kName, rates.size(), counts_.base_lrs.size()));
    }
    for (std::size_t g = 0; g < rates.size(); ++g) {
      rates[g] = rule_.next(counts_.last_epoch, rates[g], counts_.base_lrs[g]);
    }
    set_learning_rates(optimizer_, rates);
    counts_.last_lr = std::move(rates);
  }

  std::optional<bool> is_of_present_time() const override {
    if constexpr (requires { Rule::kDependsOnTime; }) {
      constexpr double kRounding = 1e-12;
      for (std::size_t g = 0; g < counts_.base_lrs.size(); ++g) {
        const double base = counts_.base_lrs[g];
        const double now = rule_.next(counts_.last_epoch, counts_.last_lr.at(g), base);
        if (std::abs(now - counts_.last_lr[g]) > kRounding * std::abs(base)) return false;
      }
      return true;
    }
    return std::nullopt;
  }

  Value state_dict() const override {
    Dict state;
    SchedulerStateWriter writer(state);
    rule_.visit(writer);
    counts_.visit(writer);
    rule_.visit_last(writer, counts_.base_lrs.size());
    return state;
  }

  void load_state_dict(const Value& state) override {
    Rule rule = rule_;
    SchedulerCounts counts = counts_;
    SchedulerStateReader reader(Rule::kName, state);
    rule.visit(reader);
    counts.visit(reader);
    reader.finish();
    rule_ = std::move(rule);
    counts_ = std::move(counts);
  }

 private:
  torch::optim::Optimizer& optimizer_;
  Rule rule_;
  SchedulerCounts counts_;
};

}  // namespace cairn
