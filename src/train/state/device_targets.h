// Which tensors of a checkpoint a load brings to a device as they are: they are read into memory of
// that device, and never lie on the host.
#pragma once

#include <c10/core/Device.h>

#include <optional>

#include "cairn/value.h"

#include "core/pointer_map.h"

namespace torch::nn {
class Module;
}
namespace torch::optim {
class Optimizer;
}

namespace cairn {

// A choice that costs time and memory when it is wrong, and nothing else: whoever takes a tensor
// brings it where it has to be. The storages are known by their addresses: the trees must live.
class DeviceTargets {
 public:
  // `model`: a state_dict. Those that are whole storages, and that the tensor of that name takes as
  // they are: the same dtype, shape and order of elements.
  void add_model(const torch::nn::Module& module, const Value& model);
  // `saved`: the state of one, with an entry "state". Its tensors of several elements that are
  // whole storages, where all parameters of `optimizer` lie on one device.
  void add_optimizer(const torch::optim::Optimizer& optimizer, const Value& saved);

  // Nothing: the host.
  std::optional<c10::Device> of(const Storage& storage) const;

 private:
  void add(const TensorView& view, c10::Device device);
  void add_tensors(const Value& value, c10::Device device);

  // Nothing: wanted on several.
  PointerMap<std::optional<c10::Device>> devices_;
};

}  // namespace cairn
