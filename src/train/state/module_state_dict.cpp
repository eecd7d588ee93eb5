#include <ATen/MemoryOverlap.h>
#include <torch/torch.h>

#include <unordered_map>
#include <unordered_set>

#include "cairn/error.h"
#include "cairn/train/state_dict.h"

#include "checkpoint/open/read_storages.h"
#include "train/state/module_load.h"
#include "train/state/staging.h"
#include "train/state/tensor_bridge.h"

namespace cairn {
namespace {

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const std::int64_t size : shape) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  }
  return text + "]";
}

std::string join(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    text += (text.empty() ? "\"" : ", \"") + name + "\"";
  }
  return text;
}

// Why nothing can be written into `target`; empty when it can.
std::string why_read_only(const std::string& name, const at::Tensor& target) {
  if (at::has_internal_overlap(target) == at::MemOverlap::Yes) {
    return name + " of the model cannot be written: its elements share memory (expand()); " +
           "register a copy of it";
  }
  if (target.is_inference() && !c10::InferenceMode::is_enabled()) {
    return name + " of the model cannot be written: it was made in inference mode";
  }
  return {};
}

// Why `view` cannot be copied into `target`; empty when it can.
std::string misfit(const std::string& name, const at::Tensor& target, const TensorView& view) {
  if (std::string reason = why_read_only(name, target); !reason.empty()) return reason;
  // Files from before PyTorch 0.4 have scalars as one-element vectors.
  const bool is_old_scalar = target.dim() == 0 && view.shape == std::vector<std::int64_t>{1};
  if (target.sizes().vec() != view.shape && !is_old_scalar) {
    return "size mismatch for " + name + ": " + shape_text(view.shape) + " in the checkpoint, " +
           shape_text(target.sizes().vec()) + " in the model";
  }
  try {
    if (c10::canCast(scalar_type_of(view.dtype), target.scalar_type())) return {};
  } catch (const UnsupportedError& e) {
    return name + ": " + e.what();
  }
  return "type mismatch for " + name + ": " + std::string(cairn::name(view.dtype)) +
         " in the checkpoint cannot become " + c10::toString(target.scalar_type());
}

// The module's tensors that have a plan, and where it is. One that stands at two places gets what
// the second has, as in Python.
using Planned = std::unordered_map<const c10::TensorImpl*, std::size_t>;

// Does all that may fail, too: what cannot be decoded is found before anything is written.
void plan_tensor(const std::string& name, const at::Tensor& target, const TensorView& view,
                 Planned& planned, ModuleLoad& load) {
  std::string reason = misfit(name, target, view);
  if (!reason.empty()) return load.misfits.push_back(std::move(reason));
  try {
    TensorLoad tensor(target, view);
    const auto [known, is_new] = planned.emplace(target.unsafeGetTensorImpl(), load.tensors.size());
    if (is_new) {
      load.tensors.push_back(std::move(tensor));
    } else {
      load.tensors[known->second] = std::move(tensor);
    }
  } catch (const UnsupportedError& e) {
    load.misfits.push_back(name + ": " + e.what());
  }
}

// `state` with what the module needs of it in memory: what is far away, or a file whose reading may
// fail, is read now.
Value in_memory(const torch::nn::Module& module, const Value& state) {
  if (!state.is_dict()) return state;
  Dict needed;
  for (const auto& [name, tensor] : named_tensors(module)) {
    const Value* value = state.find(name);
    if (value != nullptr && value->is_tensor()) needed.set(name, *value);
  }
  std::vector<StorageRead> reads;
  const auto is_far = [](const Storage& storage) {
    return storage.source() != nullptr && !storage.source()->in_memory();
  };
  const Value near = staged(needed, is_far, reads);
  if (reads.empty()) return state;
  read_storages(reads);
  Value result = state;
  Dict& dict = result.mutable_dict();
  for (const auto& [name, value] : near.as_dict()) {
    dict.set(name, value);
  }
  return result;
}

}  // namespace

Value state_dict(const torch::nn::Module& module) {
  Dict result = Dict::ordered();
  // A tensor that stands at two places is one Value.
  const auto tensors = named_tensors(module);
  std::unordered_map<const c10::TensorImpl*, Value> seen;
  seen.reserve(tensors.size());
  result.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) {
    Value& view = seen[tensor.unsafeGetTensorImpl()];
    if (view.is_none()) view = view_of(tensor);
    result.set(name, view);
  }
  return result;
}

ModuleLoad plan_module_load(const torch::nn::Module& module, const Value& state,
                            const PlanModuleLoadOptions& options) {
  ModuleLoad load;
  if (!state.is_dict()) {
    load.misfits.push_back("a state_dict is a dict of tensors, this is a " +
                           std::string(state.type_name()));
    return load;
  }
  const auto tensors = named_tensors(module);
  Planned planned;
  planned.reserve(tensors.size());
  load.tensors.reserve(tensors.size());
  std::unordered_set<std::string_view> known;
  known.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) {
    const Value* value = state.find(name);
    if (value == nullptr) {
      if (!options.left_out.contains(name)) load.keys.missing.push_back(name);
      continue;
    }
    known.insert(name);
    if (!value->is_tensor()) {
      load.misfits.push_back(name + " is a " + std::string(value->type_name()) + ", not a tensor");
      continue;
    }
    plan_tensor(name, tensor, value->as_tensor(), planned, load);
  }
  for (const auto& [key, value] : state.as_dict()) {
    if (known.size() == state.as_dict().size()) break;  // all of them
    if (!key.is_str() || !known.contains(key.as_str())) {
      load.keys.unexpected.push_back(key.is_str() ? key.as_str() : std::string(key.type_name()));
    }
  }
  if (options.strict && !load.keys.unexpected.empty()) {
    load.misfits.insert(load.misfits.begin(), "unexpected names: " + join(load.keys.unexpected));
  }
  if (options.strict && !load.keys.missing.empty()) {
    load.misfits.insert(load.misfits.begin(), "missing names: " + join(load.keys.missing));
  }
  return load;
}

IncompatibleKeys load_state_dict(torch::nn::Module& module, const Value& state,
                                 LoadStateDictOptions options) {
  ModuleLoad load = plan_module_load(module, in_memory(module, state), {.strict = options.strict});
  if (!load.misfits.empty()) {
    std::string message =
        "Error(s) in loading state_dict into " + module.name() + ", nothing was changed:";
    for (const std::string& reason : load.misfits) {
      message += "\n  " + reason;
    }
    throw MismatchError(message);
  }
  apply_all(load.tensors);
  return std::move(load.keys);
}

}  // namespace cairn
