// Loading a module in two halves, so that a whole checkpoint can be checked before any of it is
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

// Of a tensor: its name is `prefix` and `name`, one behind the other.
using UseNamedTensor = std::function<void(const std::string& prefix, const std::string& name,
                                          const at::Tensor& tensor)>;

// What Python's state_dict() lists: parameters and buffers under every name that they have, in its
// order: a module's own parameters, its buffers, then its children. Undefined ones are left out.
void for_each_named_tensor(const torch::nn::Module& module, const UseNamedTensor& use);

// Of its parameters alone, also under every name.
void for_each_named_parameter(const torch::nn::Module& module, const UseNamedTensor& use);

struct ModuleLoad {
  std::vector<TensorLoad> tensors;  // each of the module's once
  IncompatibleKeys keys;
  std::vector<std::string> misfits;  // what does not fit; empty: apply_all(tensors) will do
  std::vector<std::string> unfit;    // names that both have, and whose entry does not fit
};

struct PlanModuleLoadOptions {
  bool strict = true;
  std::set<std::string> left_out = {};  // names that nobody expects in `state`
  // Called, when it is there, before elements are looked at: until then they need not be read yet.
  std::function<void()> before_elements = {};
};
ModuleLoad plan_module_load(const torch::nn::Module& module, const Value& state,
                            const PlanModuleLoadOptions& options);

}  // namespace cairn
