#include <ATen/MemoryOverlap.h>
#include <torch/torch.h>

#include <algorithm>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "cairn/detail/node_arena.h"
#include "cairn/error.h"
#include "cairn/train/state_dict.h"

#include "checkpoint/open/verify/check_whole.h"
#include "core/per_thread.h"
#include "core/pointer_map.h"
#include "train/state/device/device_targets.h"
#include "train/state/device/staging.h"
#include "train/state/device/tensor_bridge.h"
#include "train/state/gather/state_gatherer.h"
#include "train/state/load/module_load.h"
#include "train/state/load/name_misfits.h"

namespace cairn {
namespace {

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (const std::int64_t size : shape) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  }
  return text + "]";
}

// The reason why nothing can be written into `target`; empty if it can.
std::string why_read_only(const std::string& name, const at::Tensor& target) {
  if (target.is_sparse() || target.is_sparse_csr()) {
    return name +
           " of the model is a sparse tensor, and those cannot be loaded: make it dense, or " +
           "leave it out of the state_dict()";
  }
  if (at::has_internal_overlap(target) == at::MemOverlap::Yes) {
    return name + " of the model cannot be written: its elements share memory (expand()); " +
           "register a copy of it";
  }
  if (target.is_inference() && !c10::InferenceMode::is_enabled()) {
    return name + " of the model cannot be written: it was made in inference mode";
  }
  return {};
}

bool is_same_shape(at::IntArrayRef sizes, const Dims& shape) {
  return std::ranges::equal(sizes, shape);
}

// The reason why `view` cannot be copied into `target`; empty if it can.
std::string misfit(const std::string& name, const at::Tensor& target, const TensorView& view) {
  if (std::string reason = why_read_only(name, target); !reason.empty()) return reason;
  // Files from before PyTorch 0.4 have scalars as one-element vectors.
  const bool is_old_scalar = target.dim() == 0 && view.shape.size() == 1 && view.shape[0] == 1;
  if (!is_same_shape(target.sizes(), view.shape) && !is_old_scalar) {
    return "size mismatch for " + name + ": " + shape_text(view.shape) + " in the checkpoint, " +
           shape_text({target.sizes().data(), target.sizes().size()}) + " in the model";
  }
  try {
    if (c10::canCast(scalar_type_of(view.dtype), target.scalar_type())) return {};
  } catch (const UnsupportedError& e) {
    return name + ": " + e.what();
  }
  return "type mismatch for " + name + ": " + std::string(cairn::name(view.dtype)) +
         " in the checkpoint cannot become " + c10::toString(target.scalar_type());
}

// `state`, with fresh memory for the tensors that the module needs and `is_wanted` accepts. `reads`
// must fill the memory.
Value staged_for(const torch::nn::Module& module, const Value& state,
                 const std::function<bool(const Storage&)>& is_wanted, StagedReads& reads,
                 const StageMemory& memory = {}) {
  if (!state.is_dict()) return state;
  Dict needed;
  for_each_named_tensor(module, [&](const std::string& prefix, const std::string& own_name,
                                    const at::Tensor& /*tensor*/) {
    const std::string name = prefix + own_name;
    const Value* value = state.find(name);
    if (value != nullptr && value->is_tensor()) needed.set(name, *value);
  });
  const Value near = staged(std::move(needed), is_wanted, reads, memory);
  if (reads.empty()) return state;
  Value result = state;
  Dict& dict = result.mutable_dict();
  for (const auto& [name, value] : near.as_dict()) {
    dict.set(name, value);
  }
  return result;
}

// The names of a module's tensors as Values. Each thread keeps the names of the module that it
// saved last. The next save usually has the same names, and then makes no new Values.
class NameValues {
 public:
  std::size_t size() const { return names_.size(); }
  void begin() { next_ = 0; }
  // The next name, in the order of the walk.
  const Value& next(const std::string& prefix, const std::string& name) {
    if (next_ == names_.size()) names_.emplace_back();
    Value& known = names_[next_++];
    if (!known.is_str() || !is_sum(known.as_str(), prefix, name)) {
      const detail::NodeArena::Pause pause;  // The name outlives the trees that have it as a key.
      known = prefix + name;
    }
    return known;
  }
  void end() { names_.resize(next_); }

 private:
  static bool is_sum(std::string_view text, std::string_view prefix, std::string_view name) {
    return text.size() == prefix.size() + name.size() && text.starts_with(prefix) &&
           text.ends_with(name);
  }

  std::vector<Value> names_;
  std::size_t next_ = 0;
};

// Plans the load of a module's tensors from a state dict, one after the other.
class ModulePlanner {
 public:
  ModulePlanner(const Value& state, const PlanModuleLoadOptions& options)
      : state_(state), options_(options), planned_(state.as_dict().size()) {
    load_.tensors.reserve(state.as_dict().size());
    known_.reserve(state.as_dict().size());
  }

  void add(const std::string& name, const at::Tensor& tensor) {
    const Value* value = state_.find(name);
    if (value == nullptr) {
      if (!options_.left_out.contains(name)) load_.keys.missing.push_back(name);
      return;
    }
    known_.push_back(value);
    if (value->is_tensor()) return add(name, tensor, value->as_tensor());
    refuse(name, name + " is a " + std::string(value->type_name()) + ", not a tensor");
  }

  ModuleLoad finish() && {
    const bool is_all = known_.size() == state_.as_dict().size();  // Each name was visited once.
    if (!is_all) std::ranges::sort(known_);
    for (const auto& [key, value] : state_.as_dict()) {
      if (is_all) break;
      if (!std::ranges::binary_search(known_, &value)) {
        load_.keys.unexpected.push_back(key.is_str() ? key.as_str() : std::string(key.type_name()));
      }
    }
    if (options_.strict) {
      const std::vector<std::string> of_names = list_misfits(load_.keys);
      load_.misfits.insert(load_.misfits.begin(), of_names.begin(), of_names.end());
    }
    return std::move(load_);
  }

 private:
  // Does everything that may fail, so that undecodable tensors are found before anything is
  // written.
  void add(const std::string& name, const at::Tensor& target, const TensorView& view) {
    std::string reason = misfit(name, target, view);
    if (!reason.empty()) return refuse(name, std::move(reason));
    try {
      TensorLoad tensor(target, view, options_.before_elements);
      const auto [place, is_new] = planned_.try_emplace(target.unsafeGetTensorImpl());
      if (is_new) {
        *place = load_.tensors.size();
        load_.tensors.push_back(std::move(tensor));
      } else {
        load_.tensors[*place] = std::move(tensor);
      }
    } catch (const UnsupportedError& e) {
      refuse(name, name + ": " + e.what());
    }
  }

  void refuse(const std::string& name, std::string reason) {
    load_.misfits.push_back(std::move(reason));
    load_.unfit.push_back(name);
  }

  const Value& state_;
  const PlanModuleLoadOptions& options_;
  // The module's tensors, and the indices of their plans. A tensor with two names gets the value of
  // the second one, as in Python.
  PointerMap<std::size_t> planned_;
  std::vector<const Value*> known_;  // The entries that the module has a name for.
  ModuleLoad load_;
};

}  // namespace

Value state_dict(const torch::nn::Module& module) {
  forget_dead_storages();  // First, since this frees what is left of the previous tree.
  const detail::NodeArena arena;
  static const PerThread<NameValues> names_of_threads;
  NameValues& names = names_of_threads.here();
  names.begin();
  Dict result = Dict::ordered();
  result.reserve(names.size());
  PointerMap<Value> seen;  // A tensor with two names is one Value.
  const auto add = [&](const std::string& prefix, const std::string& own_name,
                       const at::Tensor& tensor) {
    const Value& name = names.next(prefix, own_name);
    if (tensor.use_count() > 1) {  // Otherwise the tensor has no other name.
      const auto [view, is_new] = seen.try_emplace(tensor.unsafeGetTensorImpl());
      if (is_new) *view = view_of(tensor);
      result.set(name, *view);
    } else {
      result.set(name, view_of(tensor));
    }
  };
  for_each_named_tensor(module, add);
  names.end();
  return result;
}

Value ModuleGatherer::gather(const torch::nn::Module& module) {
  if (is_unchanged(module)) {
    tensors_.note_streams();
    return known_;
  }
  forget();
  Value made = state_dict(module);
  if (remember(module)) {
    known_ = made;
  } else {
    forget();
  }
  return made;
}

void ModuleGatherer::forget() {
  known_ = {};
  tensors_ = {};
  names_ = {};
}

// Call it right after state_dict(module) was made. Returns false if a view of a tensor refers to a
// copy.
bool ModuleGatherer::remember(const torch::nn::Module& module) {
  for_each_named_tensor(
      module, [&](const std::string& prefix, const std::string& name, const at::Tensor& tensor) {
        tensors_.add(tensor);
        names_.add(prefix, name);
      });
  return tensors_.are_live();
}

bool ModuleGatherer::is_unchanged(const torch::nn::Module& module) const {
  if (known_.is_none() || !tensors_.are_of_this_thread()) return false;
  SeenTensors::Cursor at;
  SeenNames::Cursor at_name;
  bool is_same = true;
  for_each_named_tensor(
      module, [&](const std::string& prefix, const std::string& name, const at::Tensor& tensor) {
        is_same = is_same && tensors_.is_next(at, tensor) && names_.is_next(at_name, prefix, name);
      });
  return is_same && tensors_.is_end(at);
}

ModuleLoad plan_module_load(const torch::nn::Module& module, const Value& state,
                            const PlanModuleLoadOptions& options) {
  if (!state.is_dict()) {
    ModuleLoad load;
    load.misfits.push_back("a state_dict is a dict of tensors, this is a " +
                           std::string(state.type_name()));
    return load;
  }
  ModulePlanner planner(state, options);
  std::string name;
  const auto add = [&](const std::string& prefix, const std::string& own_name,
                       const at::Tensor& tensor) {
    name.assign(prefix).append(own_name);
    planner.add(name, tensor);
  };
  for_each_named_tensor(module, add);
  return std::move(planner).finish();
}

namespace {

// For a `state` whose elements are in memory. Move it in: memory without another owner is handed
// over.
IncompatibleKeys put(torch::nn::Module& module, Value state, const LoadStateDictOptions& options) {
  ModuleLoad load = plan_module_load(module, state, {.strict = options.strict});
  state = Value();
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

}  // namespace

IncompatibleKeys load_state_dict(torch::nn::Module& module, const Value& state,
                                 LoadStateDictOptions options) {
  // Read far storages, and files whose reading may fail, before anything is changed.
  const auto is_far = [](const Storage& storage) {
    return storage.source() != nullptr && !storage.source()->in_memory();
  };
  StagedReads reads;
  Value near = staged_for(module, state, is_far, reads);
  read_staged(std::move(reads));
  return put(module, std::move(near), options);
}

IncompatibleKeys load_state_dict(torch::nn::Module& module, const Checkpoint& checkpoint,
                                 LoadStateDictOptions options) {
  return load_changed_state_dict(module, checkpoint, options,
                                 [](const Value& state) { return state; });
}

IncompatibleKeys load_changed_state_dict(torch::nn::Module& module, const Checkpoint& checkpoint,
                                         const LoadStateDictOptions& options,
                                         const std::function<Value(const Value& state)>& change) {
  const Value state = change(load(checkpoint, {.verify = Verify::kQuick}));
  DeviceTargets targets;
  if (may_read_to_devices(checkpoint)) targets.add_model(module, state);
  StagedReads reads;
  const auto any = [](const Storage& /*storage*/) { return true; };
  Value near = staged_for(module, state, any, reads, {.targets = &targets});
  check_whole(read_staged(checkpoint, std::move(reads), Verify::kFull), checkpoint.path());
  return put(module, std::move(near), options);
}

}  // namespace cairn
