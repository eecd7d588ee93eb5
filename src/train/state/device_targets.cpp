#include "train/state/device_targets.h"

#include <torch/torch.h>

#include <string>

#include "train/state/device_storage.h"
#include "train/state/module_load.h"
#include "train/state/names_in_order.h"
#include "train/state/tensor_bridge.h"

namespace cairn {
namespace {

// Of all parameters.
std::optional<c10::Device> one_device_of(const torch::optim::Optimizer& optimizer) {
  std::optional<c10::Device> device;
  for (const auto& group : optimizer.param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      if (device && *device != parameter.device()) return std::nullopt;
      device = parameter.device();
    }
  }
  return device && has_streams(*device) ? device : std::nullopt;
}

}  // namespace

void DeviceTargets::add_model(const torch::nn::Module& module, const Value& model) {
  if (!model.is_dict()) return;
  std::string name;
  NamesInOrder in_order(model);
  for_each_named_tensor(module, [&](const std::string& prefix, const std::string& own_name,
                                    const at::Tensor& target) {
    if (!target.has_storage() || !has_streams(target.device())) return;
    const Value* const value = in_order.find(name.assign(prefix).append(own_name));
    if (value == nullptr || !value->is_tensor()) return;
    const TensorView& view = value->as_tensor();
    if (is_alike(view, target)) add(view, target.device());
  });
}

void DeviceTargets::add_optimizer(const torch::optim::Optimizer& optimizer, const Value& saved) {
  const Value* const states = saved.is_dict() ? saved.find("state") : nullptr;
  const std::optional<c10::Device> device = one_device_of(optimizer);
  if (states == nullptr || !states->is_dict() || !device) return;
  for (const auto& [parameter, state] : states->as_dict()) {
    if (!state.is_dict()) continue;
    for (const auto& [key, value] : state.as_dict()) {
      add_tensors(value, *device);
    }
  }
}

void DeviceTargets::add_tensors(const Value& value, c10::Device device) {
  if (value.is_tensor()) {
    if (value.as_tensor().numel() > 1) add(value.as_tensor(), device);
  } else if (value.is_list()) {
    for (const Value& item : value.as_items()) {
      add_tensors(item, device);
    }
  }
}

void DeviceTargets::add(const TensorView& view, c10::Device device) {
  const bool is_read = view.storage != nullptr && view.storage->source() != nullptr;
  const bool is_plain = view.quantizer == nullptr && view.part == nullptr;
  if (!is_read || !is_plain || view.storage_offset != 0) return;
  if (view.numel() == 0 || view.storage->size() != byte_size(view)) return;
  const auto [known, is_new] = devices_.try_emplace(view.storage.get());
  if (is_new) *known = device;
  if (*known != device) *known = std::nullopt;
}

std::optional<c10::Device> DeviceTargets::of(const Storage& storage) const {
  const std::optional<c10::Device>* const found = devices_.find(&storage);
  return found == nullptr ? std::nullopt : *found;
}

}  // namespace cairn
