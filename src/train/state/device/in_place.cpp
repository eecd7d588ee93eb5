#include "train/state/device/in_place.h"

#include <torch/torch.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "cairn/detail/node_arena.h"
#include "cairn/error.h"

#include "core/pointer_map.h"
#include "train/state/device/device_storage.h"
#include "train/state/device/tensor_bridge.h"
#include "train/state/load/module_load.h"

namespace cairn {
namespace {

bool is_whole(const at::Tensor& target, const TensorView& view) {
  return target.storage_offset() == 0 && view.storage_offset == 0 &&
         target.storage().nbytes() == view.storage->size() &&
         target.storage().nbytes() == byte_size(view);
}

// A tensor of the module, and the storage of the checkpoint that can be read straight into the
// tensor's storage.
struct PlacedTensor {
  at::Tensor target;
  Value* value;  // The checkpoint's value of the same name, or null.
  const c10::StorageImpl* live;
  const Storage* saved;  // The value's, or null.
};

// Pairs storages of the checkpoint with storages of the module. A storage that has no unique
// partner is left out.
class Pairs {
 public:
  // Leaves in `placed` only storages that pair one to one.
  static void leave_only_pairs(std::vector<PlacedTensor>& placed) {
    Pairs pairs(placed.size());
    pairs.for_each(placed, [&](const PlacedTensor& each) { pairs.add(each); });
    pairs.leave_out_overlaps();
    std::size_t left = 0;
    pairs.for_each(placed, [&](PlacedTensor& each) {
      if (pairs.is_one(each)) std::swap(placed[left++], each);
    });
    placed.resize(left);
  }

 private:
  struct Memory {
    const std::byte* begin;
    const std::byte* end;
    const c10::StorageImpl* storage;
  };

  explicit Pairs(std::size_t tensors) : by_live_(tensors), by_saved_(tensors) {
    memory_.reserve(tensors);
  }

  template <class Use>
  void for_each(std::vector<PlacedTensor>& placed, const Use& use) const {
    for (PlacedTensor& each : placed) {
      use(each);
    }
  }

  void add(const PlacedTensor& placed) {
    const auto [known, is_new] = by_live_.try_emplace(placed.live);
    if (is_new) {
      *known = placed.saved;
      const auto* const begin = static_cast<const std::byte*>(placed.live->data());
      memory_.push_back({begin, begin + placed.live->nbytes(), placed.live});
    } else if (*known != placed.saved) {
      *known = nullptr;
    }
    if (placed.saved == nullptr) return;
    const auto [other, is_first] = by_saved_.try_emplace(placed.saved);
    if (is_first) *other = placed.live;
    if (*other != placed.live) *other = nullptr;
  }
  // Call it after all add(). Drops storages that overlap another one.
  void leave_out_overlaps() {
    if (!std::ranges::is_sorted(memory_, {}, &Memory::begin)) {
      std::ranges::sort(memory_, {}, &Memory::begin);
    }
    const Memory* furthest = nullptr;  // The previous storage that ends last.
    for (const Memory& memory : memory_) {
      if (furthest != nullptr && memory.begin < furthest->end) {
        *by_live_.find(memory.storage) = nullptr;
        *by_live_.find(furthest->storage) = nullptr;
      }
      if (furthest == nullptr || furthest->end < memory.end) furthest = &memory;
    }
  }
  bool is_one(const PlacedTensor& placed) {
    return placed.saved != nullptr && *by_live_.find(placed.live) == placed.saved &&
           *by_saved_.find(placed.saved) == placed.live;
  }

  std::vector<Memory> memory_;          // Each storage of the module once.
  PointerMap<const Storage*> by_live_;  // Null: several saved ones, or none that fits.
  PointerMap<const void*> by_saved_;
};

// The tensors that can be placed, with their values. `model` must have no other owner.
std::vector<PlacedTensor> candidates(const torch::nn::Module& module, const Value& model,
                                     bool with_devices) {
  std::vector<PlacedTensor> found;
  found.reserve(model.as_dict().size());
  std::string name;
  for_each_named_tensor(module, [&](const std::string& prefix, const std::string& own_name,
                                    const at::Tensor& target) {
    name.assign(prefix).append(own_name);
    const Value* value = model.find(name);
    const c10::Device device = target.device();
    const bool may_hold_it = device.is_cpu() || (with_devices && has_streams(device));
    if (!target.has_storage() || !may_hold_it) return;
    const Storage* saved = nullptr;
    if (value != nullptr && value->is_tensor()) {
      const TensorView& view = value->as_tensor();
      // A storage is read to a device in pieces. A storage that is computed would lie on the host
      // as a whole.
      const bool has_bytes = view.storage != nullptr && view.numel() != 0 &&
                             (device.is_cpu() || view.storage->source() != nullptr);
      if (has_bytes && is_alike(view, target) && is_whole(target, view)) saved = view.storage.get();
    }
    found.push_back({.target = target,
                     .value = const_cast<Value*>(value),  // NOLINT: of a dict without another owner
                     .live = target.storage().unsafeGetStorageImpl(),
                     .saved = saved});
  });
  Pairs::leave_only_pairs(found);
  return found;
}

// Gives a tensor another storage. If the value may have other owners, replaces it with a changed
// copy.
void set_storage(Value& value, const std::shared_ptr<const Storage>& storage) {
  if (value.may_be_shared()) {
    TensorView view = value.as_tensor();
    view.storage = storage;
    value = std::move(view);
  } else {
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): has no other owner, is no const object
    const_cast<TensorView&>(value.as_tensor()).storage = storage;
  }
}

}  // namespace

void InPlace::check() const {
  for (const auto& [saved, memory, data] : places) {
    if (memory.data() == data && memory.nbytes() == saved->size()) continue;
    throw Error(
        "a weight moved to other memory while the checkpoint was loaded (by the load_state_dict() "
        "of an algorithm or a callback, say): load without in_place");
  }
}

StagedReads InPlace::reads() const {
  StagedReads reads;
  reads.reserve(places.size());
  for (const Place& place : places) {
    reads.add(place.saved, place.memory);
  }
  return reads;
}

void place_in(const torch::nn::Module& module, Value& model, bool with_devices, InPlace& in_place) {
  if (!model.is_dict()) return;
  const detail::NodeArena arena;
  model.mutable_dict();  // The dict has no other owner from now on.
  const std::vector<PlacedTensor> found = candidates(module, model, with_devices);
  in_place.places.reserve(found.size());
  PointerMap<std::shared_ptr<const Storage>> made;  // For storages that several tensors may share.
  for (const PlacedTensor& placed : found) {
    const at::Tensor& target = placed.target;
    Value* const value = placed.value;
    const std::shared_ptr<const Storage> saved = value->as_tensor().storage;
    // The tensor's reference, and `saved`.
    const bool is_alone = saved.use_count() == 2 && !value->may_be_shared();
    std::shared_ptr<const Storage> live;
    if (!is_alone) live = *made.try_emplace(saved.get()).first;
    if (live == nullptr) {
      const at::Storage& memory = target.storage();
      live = target.is_cpu() ? storage_over(memory, saved->location()) : device_storage(memory);
      in_place.places.push_back({saved, memory, memory.data()});
      if (!is_alone) *made.find(saved.get()) = live;
    }
    set_storage(*value, live);
  }
}

}  // namespace cairn
