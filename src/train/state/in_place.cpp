#include "train/state/in_place.h"

#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>

#include "cairn/error.h"

#include "train/state/module_load.h"
#include "train/state/tensor_bridge.h"

namespace cairn {
namespace {

bool has_type(const at::Tensor& target, const TensorView& view) {
  try {
    return scalar_type_of(view.dtype) == target.scalar_type();
  } catch (const UnsupportedError&) {
    return false;
  }
}

bool is_alike(const at::Tensor& target, const TensorView& view) {
  const bool is_plain = target.device().is_cpu() && target.layout() == at::kStrided &&
                        !target.is_quantized() && !target.is_conj() && !target.is_neg() &&
                        view.quantizer == nullptr && view.part == nullptr;
  if (!is_plain || !has_type(target, view)) return false;
  const auto address = reinterpret_cast<std::uintptr_t>(target.data_ptr());
  return address % item_size(view.dtype) == 0 && std::ranges::equal(target.sizes(), view.shape) &&
         std::ranges::equal(target.strides(), view.strides) &&
         target.is_non_overlapping_and_dense();
}

bool is_whole(const at::Tensor& target, const TensorView& view) {
  return target.storage_offset() == 0 && view.storage_offset == 0 &&
         target.storage().nbytes() == view.storage->size() &&
         target.storage().nbytes() == byte_size(view);
}

// Which storage of the checkpoint goes into which of the module: one into one, or none.
class Pairs {
 public:
  // A tensor of the module; null: nothing is read straight into its storage.
  void add(const at::Tensor& target, const TensorView* view) {
    if (!target.has_storage() || !target.device().is_cpu()) return;
    const void* const live = target.storage().unsafeGetStorageImpl();
    const Storage* const saved = view == nullptr ? nullptr : view->storage.get();
    const auto [known, is_new] = by_live_.emplace(live, saved);
    if (is_new) memory_.push_back(target.storage());
    if (!is_new && known->second != saved) known->second = nullptr;
    if (saved == nullptr) return;
    const auto [other, is_first] = by_saved_.emplace(saved, live);
    if (!is_first && other->second != live) other->second = nullptr;
  }
  // Behind all of add(): what lies in one memory with another storage goes into none.
  void leave_out_overlaps() {
    const auto begin = [](const c10::Storage& storage) {
      return static_cast<const std::byte*>(storage.data());
    };
    std::ranges::sort(memory_, {}, begin);
    const c10::Storage* furthest = nullptr;  // of those before
    for (const c10::Storage& storage : memory_) {
      if (furthest != nullptr && begin(storage) < begin(*furthest) + furthest->nbytes()) {
        by_live_.at(storage.unsafeGetStorageImpl()) = nullptr;
        by_live_.at(furthest->unsafeGetStorageImpl()) = nullptr;
      }
      const bool reaches_further = furthest == nullptr || begin(*furthest) + furthest->nbytes() <
                                                              begin(storage) + storage.nbytes();
      if (reaches_further) furthest = &storage;
    }
  }
  bool is_one(const at::Tensor& target, const Storage* saved) const {
    const void* const live = target.storage().unsafeGetStorageImpl();
    return by_live_.at(live) == saved && by_saved_.at(saved) == live;
  }

 private:
  std::vector<c10::Storage> memory_;                         // each storage of the module once
  std::unordered_map<const void*, const Storage*> by_live_;  // null: several, or something else
  std::unordered_map<const Storage*, const void*> by_saved_;
};

}  // namespace

void InPlace::check() const {
  for (std::size_t i = 0; i < reads.size(); ++i) {
    const bool is_there =
        memory[i].data() == reads[i].into.data() && memory[i].nbytes() == reads[i].into.size();
    if (!is_there) {
      throw Error(
          "a weight was given other memory while the checkpoint was loaded (by the "
          "load_state_dict() of an algorithm or a callback, say): not with in_place");
    }
  }
}

Value placed_in(const torch::nn::Module& module, const Value& model, InPlace& in_place) {
  if (!model.is_dict()) return model;
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for_each_named_tensor(
      module, [&](const std::string& prefix, const std::string& name, const at::Tensor& tensor) {
        tensors.emplace_back(prefix + name, tensor);
      });
  Pairs pairs;
  std::vector<const TensorView*> views(tensors.size(), nullptr);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto& [name, target] = tensors[i];
    const Value* const value = model.find(name);
    const TensorView* const view =
        value == nullptr || !value->is_tensor() ? nullptr : &value->as_tensor();
    const bool has_bytes = view != nullptr && view->storage != nullptr && view->numel() != 0;
    if (has_bytes && is_alike(target, *view) && is_whole(target, *view)) views[i] = view;
    pairs.add(target, views[i]);
  }
  pairs.leave_out_overlaps();
  Value placed = model;
  Dict& dict = placed.mutable_dict();
  std::unordered_map<const Storage*, std::shared_ptr<const Storage>> made;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto& [name, target] = tensors[i];
    if (views[i] == nullptr || !pairs.is_one(target, views[i]->storage.get())) continue;
    TensorView view = *views[i];
    std::shared_ptr<const Storage>& live = made[view.storage.get()];
    if (live == nullptr) {
      auto* const data = static_cast<std::byte*>(target.data_ptr());
      live = storage_over(target.storage(), view.storage->location());
      in_place.reads.push_back({view.storage, {data, live->size()}});
      in_place.memory.push_back(target.storage());
      in_place.storages.insert(live.get());
    }
    view.storage = live;
    dict.set(name, Value(std::move(view)));
  }
  return placed;
}

}  // namespace cairn
