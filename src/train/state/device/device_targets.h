// The tensors of a checkpoint that a load moves to a device unchanged. They are read into memory of
// that device, and never lie on the host.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <optional>

#include "cairn/export.h"
#include "cairn/value.h"

#include "core/pointer_map.h"

namespace torch::nn {
class Module;
}
namespace torch::optim {
class Optimizer;
}

namespace CAIRN_PUBLIC cairn {
class State;
}  // namespace cairn

namespace cairn {

// A wrong choice costs only time and memory: the code that takes a tensor moves it to the right
// device. The storages are known by address, so the trees must stay alive.
class DeviceTargets {
 public:
  // `model`: a state_dict. Adds tensors that are whole storages and match the module's tensor of
  // the same name in dtype, shape and order of elements.
  void add_model(const torch::nn::Module& module, const Value& model);
  // `saved`: the state of an optimizer. Adds tensors that match their parameter in the same way,
  // such as the per-element state of torch's optimizers. Other code reports what does not fit the
  // live optimizer. Throws UsageError as named_groups() does.
  void add_optimizer(const torch::optim::Optimizer& optimizer, const torch::nn::Module& module,
                     const Value& saved);
  // Both of the above, for the "state" of a checkpoint. Entries that an older Composer names
  // differently go through memory of the host.
  void add_state(const State& state, const Value& saved, bool with_optimizer);

  // The device that the storage goes to. Nullopt: the host.
  std::optional<c10::Device> of(const Storage& storage) const;

 private:
  void add(const Value& value, const at::Tensor& target);

  // Nullopt: the storage is wanted on several devices.
  PointerMap<std::optional<c10::Device>> devices_;
};

}  // namespace cairn
