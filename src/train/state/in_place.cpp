#include "train/state/in_place.h"

#include <torch/torch.h>

#include <algorithm>
#include <unordered_map>

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
  return is_plain && has_type(target, view) && std::ranges::equal(target.sizes(), view.shape) &&
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
    if (!target.has_storage()) return;
    const void* const live = target.storage().unsafeGetStorageImpl();
    const Storage* const saved = view == nullptr ? nullptr : view->storage.get();
    const auto [known, is_new] = by_live_.emplace(live, saved);
    if (!is_new && known->second != saved) known->second = nullptr;
    if (saved == nullptr) return;
    const auto [other, is_first] = by_saved_.emplace(saved, live);
    if (!is_first && other->second != live) other->second = nullptr;
  }
  bool is_one(const at::Tensor& target, const Storage* saved) const {
    const void* const live = target.storage().unsafeGetStorageImpl();
    return by_live_.at(live) == saved && by_saved_.at(saved) == live;
  }

 private:
  std::unordered_map<const void*, const Storage*> by_live_;  // null: several, or something else
  std::unordered_map<const Storage*, const void*> by_saved_;
};

}  // namespace

Value placed_in(const torch::nn::Module& module, const Value& model, InPlace& in_place) {
  if (!model.is_dict()) return model;
  const auto tensors = named_tensors(module);
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
      live = storage_of(bytes_of(target.storage()), view.storage->location());
      in_place.reads.push_back({view.storage, {data, live->size()}});
      in_place.storages.insert(live.get());
    }
    view.storage = live;
    dict.set(name, Value(std::move(view)));
  }
  return placed;
}

}  // namespace cairn
