// Loads a module in two halves, so that a whole checkpoint can be checked before any of it is
// applied.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "cairn/train/state_dict.h"

#include "train/state/device/tensor_load.h"

namespace cairn {

// Called with a tensor; its name is `prefix` followed by `name`.
using UseNamedTensor = std::function<void(const std::string& prefix, const std::string& name,
                                          const at::Tensor& tensor)>;

// Visits what Python's state_dict() lists: parameters and buffers under every name that they have,
// in Python's order. That is a module's own parameters, its buffers, then its children. Skips
// undefined tensors.
void for_each_named_tensor(const torch::nn::Module& module, const UseNamedTensor& use);

// Visits only the parameters, also under every name.
void for_each_named_parameter(const torch::nn::Module& module, const UseNamedTensor& use);

struct ModuleLoad {
  std::vector<TensorLoad> tensors;  // Each tensor of the module once.
  IncompatibleKeys keys;
  std::vector<std::string> misfits;  // If empty, apply_all(tensors) will succeed.
  std::vector<std::string> unfit;  // Names that the module and the state have, but that do not fit.
};

struct PlanModuleLoadOptions {
  bool strict = true;
  std::set<std::string> left_out = {};  // Names that `state` may lack.
  // Called, if set, before elements are first used. Until then they need not have been read.
  std::function<void()> before_elements = {};
};
ModuleLoad plan_module_load(const torch::nn::Module& module, const Value& state,
                            const PlanModuleLoadOptions& options);

// load_state_dict() of a checkpoint, with `change` of its state dict, whose tensors were not read
// yet.
IncompatibleKeys load_changed_state_dict(torch::nn::Module& module, const Checkpoint& checkpoint,
                                         const LoadStateDictOptions& options,
                                         const std::function<Value(const Value& state)>& change);

}  // namespace cairn
