#include "train/state/staging.h"

#include <c10/core/CPUAllocator.h>
#include <torch/torch.h>

#include <new>

#include "checkpoint/convert/map_tensors.h"
#include "io/page_memory.h"
#include "train/state/tensor_bridge.h"

namespace cairn {
namespace {

at::Storage fresh_memory(std::uint64_t bytes) {
  try {
    at::Storage memory(at::Storage::use_byte_size_t(), static_cast<std::int64_t>(bytes),
                       c10::GetAllocator(c10::kCPU), /*resizable=*/true);
    ask_for_huge_pages(memory.unsafeGetStorageImpl()->data(), bytes);
    return memory;
  } catch (const c10::Error&) {  // what its allocator throws for want of memory
    throw std::bad_alloc();
  }
}

}  // namespace

Value staged(const Value& tree, const std::function<bool(const Storage&)>& is_wanted,
             std::vector<StorageRead>& reads) {
  // By storage only: a storage that is seen in two dtypes stays one.
  std::unordered_map<const Storage*, std::shared_ptr<const Storage>> known;
  return map_tensors(tree, [&](const TensorView& tensor) {
    if (tensor.storage == nullptr || tensor.storage->size() == 0) return tensor;
    std::shared_ptr<const Storage>& made = known[tensor.storage.get()];
    if (made == nullptr && is_wanted(*tensor.storage)) {
      const std::uint64_t size = tensor.storage->size();
      const at::Storage memory = fresh_memory(size);
      auto* const data = static_cast<std::byte*>(memory.unsafeGetStorageImpl()->data());
      made = std::make_shared<const Storage>(bytes_of(memory), tensor.storage->location());
      reads.push_back({tensor.storage, {data, size}});
    }
    TensorView result = tensor;
    if (made != nullptr) result.storage = made;
    return result;
  });
}

}  // namespace cairn
