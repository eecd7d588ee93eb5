// Python walks over the modules, a parent before its children, and so does state_dict(). A tensor's
// first name is the one that this walk meets first.
#include "cairn/train/parameters.h"

#include <torch/torch.h>

#include "core/pointer_map.h"
#include "train/state/load/module_load.h"

namespace cairn {
namespace {

using NamedTensorList = std::vector<std::pair<std::string, at::Tensor>>;

enum Kinds : std::uint8_t { kParameters = 1, kBuffers = 2 };

// Module::named_parameters() copies a table of names and tensors for each module. A class derived
// from Module can read the table itself, as libtorch's ParameterDict does.
struct ParametersOf : torch::nn::Module {
  static const torch::OrderedDict<std::string, at::Tensor>& in(const torch::nn::Module& module) {
    return module.*(&ParametersOf::parameters_);
  }
};

// Calls use(prefix, name, tensor).
template <class Use>
void walk(const torch::nn::Module& module, const std::string& prefix, int kinds, const Use& use) {
  const auto each = [&](const torch::OrderedDict<std::string, at::Tensor>& tensors) {
    for (const auto& item : tensors) {
      if (item.value().defined()) use(prefix, item.key(), item.value());
    }
  };
  if ((kinds & kParameters) != 0) each(ParametersOf::in(module));
  if ((kinds & kBuffers) != 0) each(module.named_buffers(/*recurse=*/false));
  for (const auto& item : module.named_children()) {
    if (item.value() != nullptr) walk(*item.value(), prefix + item.key() + ".", kinds, use);
  }
}

// Returns true the first time that it sees a tensor.
class FirstTime {
 public:
  explicit FirstTime(std::size_t tensors) : seen_(tensors) {}
  bool operator()(const at::Tensor& tensor) {
    return seen_.try_emplace(tensor.unsafeGetTensorImpl()).second;
  }

 private:
  struct Nothing {};
  PointerMap<Nothing> seen_;
};

NamedTensorList collect_once(const torch::nn::Module& module, Kinds kinds) {
  NamedTensorList found;
  const auto use = [&](const auto& prefix, const auto& name, const at::Tensor& tensor) {
    found.emplace_back(prefix + name, tensor);
  };
  walk(module, "", kinds, use);
  FirstTime first(found.size());
  std::erase_if(found, [&](const auto& item) { return !first(item.second); });
  return found;
}

}  // namespace

void for_each_named_tensor(const torch::nn::Module& module, const UseNamedTensor& use) {
  walk(module, "", kParameters | kBuffers, use);
}

void for_each_named_parameter(const torch::nn::Module& module, const UseNamedTensor& use) {
  walk(module, "", kParameters, use);
}

NamedTensorList named_parameters(const torch::nn::Module& module) {
  return collect_once(module, kParameters);
}

NamedTensorList named_buffers(const torch::nn::Module& module) {
  return collect_once(module, kBuffers);
}

std::vector<at::Tensor> parameters(const torch::nn::Module& module) {
  std::vector<at::Tensor> tensors;
  for (auto& [name, tensor] : named_parameters(module))
    tensors.push_back(std::move(tensor));
  return tensors;
}

std::vector<at::Tensor> unique_tensors(std::vector<at::Tensor> tensors) {
  FirstTime first(tensors.size());
  std::erase_if(tensors, [&](const at::Tensor& tensor) { return !first(tensor); });
  return tensors;
}

}  // namespace cairn
