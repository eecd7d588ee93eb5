#include "train/state/device/device_targets.h"

#include <torch/torch.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cairn/train/optimizer.h"
#include "cairn/train/state.h"

#include "train/optimizer/parameter_names.h"
#include "train/state/device/device_storage.h"
#include "train/state/device/tensor_bridge.h"
#include "train/state/load/module_load.h"

namespace cairn {

void DeviceTargets::add_model(const torch::nn::Module& module, const Value& model) {
  if (!model.is_dict()) return;
  std::string name;
  for_each_named_tensor(module, [&](const std::string& prefix, const std::string& own_name,
                                    const at::Tensor& target) {
    const Value* const value = model.find(name.assign(prefix).append(own_name));
    if (value != nullptr) add(*value, target);
  });
}

void DeviceTargets::add_optimizer(const torch::optim::Optimizer& optimizer,
                                  const torch::nn::Module& module, const Value& saved) {
  const Value* const states = saved.is_dict() ? saved.find("state") : nullptr;
  const Value* const groups = saved.is_dict() ? saved.find("param_groups") : nullptr;
  if (states == nullptr || !states->is_dict() || groups == nullptr || !groups->is_list()) return;
  const std::vector<NamedGroup> live = named_groups(optimizer, module);
  for (std::size_t g = 0; g < std::min(live.size(), groups->as_items().size()); ++g) {
    const Value& group = groups->as_items()[g];
    const Value* const params = group.is_dict() ? group.find("params") : nullptr;
    if (params == nullptr || !(params->is_list() || params->is_tuple())) continue;
    const List& keys = params->as_items();
    for (std::size_t i = 0; i < std::min(live[g].size(), keys.size()); ++i) {
      const auto& [name, parameter] = live[g][i];  // By name, if there are names.
      if (!keys[i].is_str() && !keys[i].is_int()) continue;
      const Value* const state = states->as_dict().find(keys[i].is_str() ? Value(name) : keys[i]);
      if (state == nullptr || !state->is_dict()) continue;
      for (const auto& [key, value] : state->as_dict()) {
        add(value, parameter);
      }
    }
  }
}

void DeviceTargets::add_state(const State& state, const Value& saved, bool with_optimizer) {
  if (!saved.is_dict()) return;
  const torch::nn::Module& module = state.model->module();
  if (const Value* model = saved.find("model")) add_model(module, *model);
  const Value* const optimizers = saved.find("optimizers");
  const bool is_wanted = state.optimizer && with_optimizer;
  if (!is_wanted || optimizers == nullptr || !optimizers->is_dict()) return;
  const Value* const entry = optimizers->find(optimizer_name(*state.optimizer));
  if (entry != nullptr) add_optimizer(*state.optimizer, module, *entry);
}

void DeviceTargets::add(const Value& value, const at::Tensor& target) {
  if (!value.is_tensor() || !target.has_storage() || !has_streams(target.device())) return;
  const TensorView& view = value.as_tensor();
  const bool is_read = view.storage != nullptr && view.storage->source() != nullptr;
  if (!is_read || view.numel() == 0 || !is_alike(view, target)) return;
  if (view.storage_offset != 0 || view.storage->size() != byte_size(view)) return;
  const auto [known, is_new] = devices_.try_emplace(view.storage.get());
  if (is_new) *known = target.device();
  if (*known != target.device()) *known = std::nullopt;
}

std::optional<c10::Device> DeviceTargets::of(const Storage& storage) const {
  const std::optional<c10::Device>* const found = devices_.find(&storage);
  return found == nullptr ? std::nullopt : *found;
}

}  // namespace cairn
