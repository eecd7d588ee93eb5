#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <unordered_map>

#include "cairn/detail/node_arena.h"
#include "cairn/error.h"
#include "cairn/train/optimizer.h"
#include "cairn/train/parameters.h"

#include "train/optimizer/param_state.h"
#include "train/optimizer/parameter_names.h"
#include "train/optimizer/state_format.h"
#include "train/state/device/tensor_bridge.h"

namespace cairn {
namespace {

// The text for a parameter that is not in the model. It names the model's parameters of the same
// shape, which suggest which one the optimizer should have.
std::string foreign_parameter(const at::Tensor& parameter, std::size_t i, std::size_t g,
                              const torch::nn::Module& module) {
  std::vector<std::string> alike;
  for (const auto& [name, tensor] : named_parameters(module)) {
    if (tensor.sizes() == parameter.sizes()) alike.push_back("\"" + name + "\"");
  }
  return fmt::format(
      "parameter {} of the optimizer's group {}, of shape [{}], is none of the model's parameters "
      "({}): give the optimizer cairn::parameters(module), taken after the module was complete",
      i, g, fmt::join(parameter.sizes(), ", "),
      alike.empty() ? "none has that shape"
                    : fmt::format("of that shape it has {}", fmt::join(alike, ", ")));
}

}  // namespace

std::vector<NamedGroup> named_groups(const torch::optim::Optimizer& optimizer,
                                     const torch::nn::Module& module) {
  std::unordered_map<const c10::TensorImpl*, std::string> known;
  for (const auto& [name, tensor] : named_parameters(module)) {
    known.emplace(tensor.unsafeGetTensorImpl(), name);
  }
  std::vector<NamedGroup> groups;
  std::unordered_map<const c10::TensorImpl*, std::size_t> group_of;
  for (const auto& group : optimizer.param_groups()) {
    const std::size_t g = groups.size();
    groups.emplace_back();
    for (const at::Tensor& parameter : group.params()) {
      const auto found = known.find(parameter.unsafeGetTensorImpl());
      if (found == known.end()) {
        throw UsageError(foreign_parameter(parameter, groups[g].size(), g, module));
      }
      const auto [owner, is_new] = group_of.try_emplace(found->first, g);
      if (owner->second != g) {
        throw UsageError(fmt::format(
            "the optimizer's groups {} and {} both have the parameter \"{}\", which would be "
            "stepped twice: leave it out of one of them",
            owner->second, g, found->second));
      }
      if (is_new) groups[g].emplace_back(found->second, parameter);
    }
  }
  return groups;
}

void drop_repeated_parameters(torch::optim::Optimizer& optimizer, const torch::nn::Module& module) {
  const std::vector<NamedGroup> groups = named_groups(optimizer, module);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    auto& params = optimizer.param_groups()[g].params();
    if (params.size() != groups[g].size()) params = unique_tensors(std::move(params));
  }
}

std::string optimizer_name(const torch::optim::Optimizer& optimizer) {
  return layout_of(optimizer).python_name();
}

bool can_be_saved(const torch::optim::Optimizer& optimizer) {
  return find_layout(optimizer) != nullptr;
}

bool needs_closure(const torch::optim::Optimizer& optimizer) {
  const OptimizerLayout* layout = find_layout(optimizer);
  return layout != nullptr && layout->needs_closure();
}

Value optimizer_entries(const torch::optim::Optimizer& optimizer, Value states,
                        const std::vector<Value>& names) {
  const OptimizerLayout& layout = layout_of(optimizer);
  List groups;
  for (std::size_t g = 0; g < names.size(); ++g) {
    Dict entries = write_group(layout, optimizer.param_groups()[g].options());
    entries.set("params", names[g]);
    groups.emplace_back(std::move(entries));
  }
  return Dict{{"state", std::move(states)}, {"param_groups", std::move(groups)}};
}

Value optimizer_state_dict(const torch::optim::Optimizer& optimizer,
                           const torch::nn::Module& module) {
  forget_dead_storages();  // First, since this frees what is left of the previous tree.
  const detail::NodeArena arena;
  const OptimizerLayout& layout = layout_of(optimizer);
  const std::vector<NamedGroup> named = named_groups(optimizer, module);
  Dict states;
  std::vector<Value> names_of_groups;
  for (std::size_t g = 0; g < named.size(); ++g) {
    const auto& group = optimizer.param_groups()[g];
    List names;
    for (const auto& [name, parameter] : named[g]) {
      names.emplace_back(name);
      const auto* state = find_param_state(optimizer, parameter);
      if (state != nullptr) states.set(name, write_state(layout, {*state, parameter, group}));
    }
    names_of_groups.emplace_back(std::move(names));
  }
  return optimizer_entries(optimizer, std::move(states), names_of_groups);
}

}  // namespace cairn
