// Which tensors of a checkpoint a load brings to a device as they are: they are read into memory of
// that device, and never lie on the host.
#pragma once

#include <ATen/core/Tensor.h>
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

class State;

// A choice that costs time and memory when it is wrong, and nothing else: whoever takes a tensor
// brings it where it has to be. The storages are known by their addresses: the trees must live.
class DeviceTargets {
 public:
  // `model`: a state_dict. Those that are whole storages, and that the tensor of that name takes as
  // they are: the same dtype, shape and order of elements.
  void add_model(const torch::nn::Module& module, const Value& model);
  // `saved`: the state of an optimizer. Those that its parameter would take so, as what torch's own
  // keep for each element. What does not fit the live one is left to who loads it. UsageError as
  // named_groups().
  void add_optimizer(const torch::optim::Optimizer& optimizer, const torch::nn::Module& module,
                     const Value& saved);
  // Both, for the "state" of a checkpoint. Entries that an older Composer names otherwise go
  // through memory of the host.
  void add_state(const State& state, const Value& saved, bool with_optimizer);

  // Nothing: the host.
  std::optional<c10::Device> of(const Storage& storage) const;

 private:
  void add(const Value& value, const at::Tensor& target);

  // Nothing: wanted on several.
  PointerMap<std::optional<c10::Device>> devices_;
};

}  // namespace cairn
