#include <fmt/format.h>
#include <torch/torch.h>

#include <unordered_map>

#include "cairn/error.h"
#include "cairn/train/optimizer.h"

#include "optim/optimizer_format.h"
#include "optim/param_state.h"
#include "optim/parameter_names.h"

namespace cairn {

std::vector<std::vector<std::string>> parameter_names(const torch::optim::Optimizer& optimizer,
                                                      const torch::nn::Module& module) {
  std::unordered_map<const c10::TensorImpl*, std::string> known;
  for (const auto& item : module.named_parameters()) {
    known.try_emplace(item.value().unsafeGetTensorImpl(), item.key());
  }
  std::vector<std::vector<std::string>> names;
  for (const auto& group : optimizer.param_groups()) {
    names.emplace_back();
    for (const at::Tensor& parameter : group.params()) {
      const auto found = known.find(parameter.unsafeGetTensorImpl());
      if (found == known.end()) {
        throw UsageError(fmt::format(
            "parameter {} of the optimizer's group {} is none of the module's parameters: give the "
            "optimizer module.parameters(), taken after the module was complete",
            names.back().size(), names.size() - 1));
      }
      names.back().push_back(found->second);
    }
  }
  return names;
}

std::string optimizer_name(const torch::optim::Optimizer& optimizer) {
  return format_of(optimizer).name();
}

Value optimizer_state_dict(const torch::optim::Optimizer& optimizer,
                           const torch::nn::Module& module) {
  const OptimizerFormat& format = format_of(optimizer);
  const auto names = parameter_names(optimizer, module);
  Dict states;
  List groups;
  for (std::size_t g = 0; g < names.size(); ++g) {
    const auto& group = optimizer.param_groups()[g];
    for (std::size_t i = 0; i < names[g].size(); ++i) {
      const auto* state = find_param_state(optimizer, group.params()[i]);
      if (state != nullptr) states.set(names[g][i], format.write_state(*state, group.options()));
    }
    Dict entries = format.write_group(group.options());
    entries.set("params", List(names[g].begin(), names[g].end()));
    groups.emplace_back(std::move(entries));
  }
  return Dict{{"state", std::move(states)}, {"param_groups", std::move(groups)}};
}

}  // namespace cairn
