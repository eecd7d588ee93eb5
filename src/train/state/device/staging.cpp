#include "train/state/device/staging.h"

#include <c10/core/CPUAllocator.h>
#include <torch/torch.h>

#include <algorithm>
#include <atomic>

#include "core/pointer_map.h"
#include "core/round_up.h"
#include "io/memory/page_memory.h"
#include "train/state/device/device_storage.h"
#include "train/state/device/device_targets.h"
#include "train/state/device/mirror.h"
#include "train/state/device/tensor_bridge.h"

namespace cairn {
namespace {

// The extra bytes are for gaps between tensors. Eight tensors of 4 MiB fit, and the unused rest of
// the last huge page is not touched.
constexpr std::size_t kSlabBytes = (std::size_t{32} << 20) + (std::size_t{64} << 10);
constexpr std::size_t kLargestShared = kSlabBytes / 4;
constexpr std::size_t kStorageAlignment = 64;  // libtorch's.
constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kPhasedBytes = std::size_t{1} << 20;

struct Slab {
  explicit Slab(std::size_t bytes) : memory(bytes) {}
  PageMemory memory;
  std::atomic<std::size_t> users = 1;
};

void release_slab(void* slab) {
  auto* const used = static_cast<Slab*>(slab);
  if (used->users.fetch_sub(1) == 1) delete used;
}

class Slabs {
 public:
  Slabs() = default;
  Slabs(const Slabs&) = delete;
  Slabs& operator=(const Slabs&) = delete;
  ~Slabs() { release(); }

  // A large storage has the same position in its page as `offset` in its file, so that it can be
  // read from the disk without a copy.
  at::Storage take(std::size_t bytes, std::uint64_t offset) {
    const bool has_phase = bytes >= kPhasedBytes && offset % kStorageAlignment == 0;
    const std::size_t phase = has_phase ? offset % kPageBytes : 0;
    const std::size_t room = round_up(bytes, kStorageAlignment);
    std::size_t begin = has_phase ? used_ + (phase - used_ % kPageBytes) % kPageBytes : used_;
    if (slab_ == nullptr || slab_->memory.size() < begin + room) {
      release();
      begin = phase;
      slab_ = new Slab(room > kLargestShared ? begin + room : kSlabBytes);
    }
    ++slab_->users;
    at::DataPtr memory(slab_->memory.data() + begin, slab_, release_slab, c10::kCPU);
    used_ = begin + room;
    // In parentheses: newer versions take a signed number of bytes.
    return at::Storage(at::Storage::use_byte_size_t(), bytes, std::move(memory),
                       c10::GetAllocator(c10::kCPU), /*resizable=*/true);
  }

 private:
  void release() {
    if (slab_ != nullptr) release_slab(slab_);
    slab_ = nullptr;
    used_ = 0;
  }

  Slab* slab_ = nullptr;
  std::size_t used_ = 0;
};

// Walks a tree and gives its tensors memory. An object without another owner is changed in place, a
// shared one in a copy, made once for all its owners.
class Stager {
 public:
  Stager(const std::function<bool(const Storage&)>& is_wanted, StagedReads& reads,
         const StageMemory& memory)
      : is_wanted_(is_wanted), reads_(reads), memory_(memory) {}

  void visit(Value& value) {
    const bool has_tensors = value.is_tensor() || value.kind() == Kind::kSparse ||
                             value.is_dict() || value.is_list() || value.is_tuple();
    if (!has_tensors || value.identity() == nullptr) return;
    if (!value.may_be_shared()) return change(value);
    const auto [place, is_new] = places_.try_emplace(value.identity());
    if (!is_new) {
      value = changed_[*place];
      return;
    }
    const std::size_t index = changed_.size();
    *place = index;
    changed_.emplace_back();
    before_.push_back(value);  // Kept, so that no other object reuses its address.
    value = copy_of(value);
    change(value);
    changed_[index] = value;
  }

 private:
  // A new object with the same parts.
  static Value copy_of(const Value& value) {
    if (value.is_tensor()) return value.as_tensor();
    if (value.is_dict()) return value.as_dict();
    if (value.is_list()) return value.as_items();
    if (value.is_tuple()) return Tuple{value.as_items()};
    return value.as_sparse();
  }

  // For objects without another owner that are not const. Value has no such access for all kinds.
  template <class T>
  static T& own(Value& value) {
    return const_cast<T&>(*value.get_if<T>());  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  }

  void change(Value& value) {
    if (value.is_tensor()) return change(own<TensorView>(value));
    if (value.is_dict()) {
      for (const auto& [key, part] : own<Dict>(value)) {
        visit(const_cast<Value&>(part));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
      }
    } else if (value.is_list() || value.is_tuple()) {
      for (Value& item : value.is_list() ? own<List>(value) : own<Tuple>(value).items) {
        visit(item);
      }
    } else {
      auto& sparse = own<SparseTensor>(value);
      if (sparse.layout != Layout::kSparseCoo) change(sparse.compressed_indices);
      change(sparse.indices);
      change(sparse.values);
    }
  }

  // Replaces the tensor's storage. Storages are told apart by identity only, so a storage that is
  // seen in two dtypes stays one storage. The storage of only one tensor is visited once.
  void change(TensorView& tensor) {
    const std::shared_ptr<const Storage> storage = tensor.storage;
    if (storage == nullptr || storage->size() == 0 || !is_wanted_(*storage)) return;
    if (storage.use_count() == 2) {  // The tensor's reference, and `storage`.
      tensor.storage = make(storage);
      return;
    }
    std::shared_ptr<const Storage>& made = *known_.try_emplace(storage.get()).first;
    if (made == nullptr) made = make(storage);
    kept_.push_back(storage);  // For the same reason as before_.
    tensor.storage = made;
  }

  std::shared_ptr<const Storage> make(const std::shared_ptr<const Storage>& storage) {
    if (memory_.targets != nullptr) {
      const auto device = memory_.targets->of(*storage);
      if (auto made = device ? make_on(*device, storage) : nullptr) return made;
    }
    const std::uint64_t size = storage->size();
    const std::uint64_t offset = storage->source_offset();
    const bool is_mirrored = is_in_mirror(*storage);
    if (is_mirrored && offset % kStorageAlignment == 0) {
      return storage_over(memory_.mirror->part(offset, size), storage->location());
    }
    const at::Storage memory = slabs_.take(size, offset);
    if (is_mirrored) {
      memory_.copies->push_back({memory_.mirror->part(offset, size), memory});
    } else {
      reads_.add(storage, memory);
    }
    return storage_over(memory, storage->location());
  }

  // Null if the device has no memory for it.
  std::shared_ptr<const Storage> make_on(c10::Device device,
                                         const std::shared_ptr<const Storage>& storage) {
    const auto size = static_cast<std::int64_t>(storage->size());
    at::Tensor made;
    try {
      made = at::empty({size}, at::TensorOptions(at::kByte).device(device));
    } catch (const c10::Error&) {
      return nullptr;
    }
    reads_.add(storage, made.storage());
    return fresh_device_storage(made.storage());
  }

  bool is_in_mirror(const Storage& storage) const {
    if (memory_.file == nullptr || storage.source() != memory_.file) return false;
    const std::uint64_t offset = storage.source_offset();
    const std::uint64_t all = memory_.file->size();
    return offset <= all && storage.size() <= all - offset;
  }

  const std::function<bool(const Storage&)>& is_wanted_;
  StagedReads& reads_;
  const StageMemory& memory_;
  Slabs slabs_;
  PointerMap<std::shared_ptr<const Storage>> known_;
  std::vector<std::shared_ptr<const Storage>> kept_;
  PointerMap<std::size_t> places_;  // Indices into changed_ of shared objects, by identity.
  std::vector<Value> changed_;
  std::vector<Value> before_;
};

}  // namespace

Value staged(Value tree, const std::function<bool(const Storage&)>& is_wanted, StagedReads& reads,
             const StageMemory& memory) {
  Stager(is_wanted, reads, memory).visit(tree);
  return tree;
}

bool is_replaceable(const c10::Storage& storage) noexcept {
  const at::Allocator* const allocator = storage.allocator();
  if (allocator == nullptr || !storage.resizable()) return false;
  const at::DeleterFnPtr deleter = storage.data_ptr().get_deleter();
  return deleter == allocator->raw_deleter() || deleter == release_slab || Mirror::is_part(storage);
}

}  // namespace cairn
