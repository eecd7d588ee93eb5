#include <fmt/format.h>
#include <torch/torch.h>

#include "cairn/error.h"
#include "cairn/train/optimizer.h"

#include "train/optimizer/state_format.h"

namespace cairn {

std::vector<double> learning_rates(const torch::optim::Optimizer& optimizer) {
  std::vector<double> rates;
  for (const auto& group : optimizer.param_groups()) {
    rates.push_back(group.options().get_lr());
  }
  return rates;
}

void set_learning_rates(torch::optim::Optimizer& optimizer, const std::vector<double>& rates) {
  auto& groups = optimizer.param_groups();
  if (rates.size() != groups.size()) {
    throw UsageError(fmt::format("the optimizer has {} parameter groups, found {} learning rates",
                                 groups.size(), rates.size()));
  }
  for (std::size_t g = 0; g < groups.size(); ++g) {
    groups[g].options().set_lr(rates[g]);
  }
}

std::vector<double> initial_learning_rates(torch::optim::Optimizer& optimizer) {
  const OptimizerLayout* layout = find_layout(optimizer);
  std::vector<double> rates;
  for (auto& group : optimizer.param_groups()) {
    const double lr = group.options().get_lr();
    if (layout == nullptr) {  // A user's own class is not saved, so no initial rate is kept.
      rates.push_back(lr);
      continue;
    }
    if (find_extras(group.options()) == nullptr) {
      group.set_options(layout->with_extras(group.options()));
    }
    auto& extras = dynamic_cast<GroupExtras&>(group.options());
    if (!extras.initial_lr) extras.initial_lr = lr;
    rates.push_back(*extras.initial_lr);
  }
  return rates;
}

}  // namespace cairn
