// Python's order is a walk over the modules, a parent before its children, which also
// state_dict() takes; a tensor's first name is the one that this walk meets first.
#include "cairn/train/parameters.h"

#include <torch/torch.h>

#include <unordered_set>

#include "train/state/module_load.h"

namespace cairn {
namespace {

using NamedTensorList = std::vector<std::pair<std::string, at::Tensor>>;

enum Kinds : std::uint8_t { kParameters = 1, kBuffers = 2 };

// Module::named_parameters() copies a table of names and tensors for each module. What derives from
// Module may look at the table itself (libtorch's ParameterDict does).
struct ParametersOf : torch::nn::Module {
  static const torch::OrderedDict<std::string, at::Tensor>& in(const torch::nn::Module& module) {
    return module.*(&ParametersOf::parameters_);
  }
};

void collect(const torch::nn::Module& module, const std::string& prefix, int kinds,
             NamedTensorList& found) {
  const auto add = [&](const torch::OrderedDict<std::string, at::Tensor>& tensors) {
    for (const auto& item : tensors) {
      if (item.value().defined()) found.emplace_back(prefix + item.key(), item.value());
    }
  };
  if ((kinds & kParameters) != 0) add(ParametersOf::in(module));
  if ((kinds & kBuffers) != 0) add(module.named_buffers(/*recurse=*/false));
  for (const auto& item : module.named_children()) {
    if (item.value() != nullptr) collect(*item.value(), prefix + item.key() + ".", kinds, found);
  }
}

// Remembers the tensors that it was asked about.
class FirstTime {
 public:
  explicit FirstTime(std::size_t tensors) { seen_.reserve(tensors); }
  bool operator()(const at::Tensor& tensor) {
    return seen_.insert(tensor.unsafeGetTensorImpl()).second;
  }

 private:
  std::unordered_set<const c10::TensorImpl*> seen_;
};

NamedTensorList collect_once(const torch::nn::Module& module, Kinds kinds) {
  NamedTensorList found;
  collect(module, "", kinds, found);
  FirstTime first(found.size());
  std::erase_if(found, [&](const auto& item) { return !first(item.second); });
  return found;
}

}  // namespace

NamedTensorList named_tensors(const torch::nn::Module& module) {
  NamedTensorList found;
  collect(module, "", kParameters | kBuffers, found);
  return found;
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

std::vector<at::Tensor> each_once(std::vector<at::Tensor> tensors) {
  FirstTime first(tensors.size());
  std::erase_if(tensors, [&](const at::Tensor& tensor) { return !first(tensor); });
  return tensors;
}

}  // namespace cairn
