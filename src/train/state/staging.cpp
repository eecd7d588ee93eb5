#include "train/state/staging.h"

#include <c10/core/CPUAllocator.h>
#include <torch/torch.h>

#include <algorithm>
#include <atomic>
#include <unordered_map>

#include "checkpoint/convert/map_tensors.h"
#include "core/round_up.h"
#include "io/page_memory.h"
#include "train/state/tensor_bridge.h"

namespace cairn {
namespace {

constexpr std::size_t kSlabBytes = std::size_t{32} << 20;
constexpr std::size_t kLargestShared = kSlabBytes / 4;
constexpr std::size_t kStorageAlignment = 64;  // libtorch's
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

  // A large one lies in its page as at `offset` of its file, so that it can be read from the disk
  // without a copy.
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
    // In parentheses: newer ones take a signed number of bytes.
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

}  // namespace

Value staged(const Value& tree, const std::function<bool(const Storage&)>& is_wanted,
             std::vector<StorageRead>& reads) {
  Slabs slabs;
  // By storage only: a storage that is seen in two dtypes stays one.
  std::unordered_map<const Storage*, std::shared_ptr<const Storage>> known;
  return map_tensors(tree, [&](const TensorView& tensor) {
    if (tensor.storage == nullptr || tensor.storage->size() == 0) return tensor;
    std::shared_ptr<const Storage>& made = known[tensor.storage.get()];
    if (made == nullptr && is_wanted(*tensor.storage)) {
      const std::uint64_t size = tensor.storage->size();
      const at::Storage memory = slabs.take(size, tensor.storage->source_offset());
      auto* const data = static_cast<std::byte*>(memory.unsafeGetStorageImpl()->data());
      made = storage_of(bytes_of(memory), tensor.storage->location());
      reads.push_back({tensor.storage, {data, size}});
    }
    TensorView result = tensor;
    if (made != nullptr) result.storage = made;
    return result;
  });
}

bool is_replaceable(const c10::Storage& storage) noexcept {
  const at::Allocator* const allocator = storage.allocator();
  if (allocator == nullptr || !storage.resizable()) return false;
  const at::DeleterFnPtr deleter = storage.data_ptr().get_deleter();
  return deleter == allocator->raw_deleter() || deleter == release_slab;
}

}  // namespace cairn
