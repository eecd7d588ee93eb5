#include "train/data/batch_memory.h"

#include <c10/core/CPUAllocator.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <mutex>
#include <utility>

#include "cairn/train/data.h"

namespace cairn {
namespace {

constexpr std::size_t kLeastBytes = 64;

thread_local BatchMemory* memory_of_thread = nullptr;

// A block on its shelf, or in use by a storage of libtorch.
struct Block {
  at::DataPtr memory;
  std::size_t bytes;
  std::shared_ptr<BatchMemory::Shelf> shelf = nullptr;  // Set while the block is in use.
  Block* next = nullptr;                                // On the shelf.
};

}  // namespace

class BatchMemory::Shelf {
 public:
  Shelf() = default;
  ~Shelf() {
    for (Block* block : free_) {
      while (block != nullptr)
        delete std::exchange(block, block->next);
    }
  }
  Shelf(const Shelf&) = delete;
  Shelf& operator=(const Shelf&) = delete;

  // A block of at least `bytes`.
  std::unique_ptr<Block> take(std::size_t bytes) {
    const std::size_t rounded = std::bit_ceil(std::max(bytes, kLeastBytes));
    {
      const std::lock_guard lock(mutex_);
      Block*& first = free_of(rounded);
      if (first != nullptr) return std::unique_ptr<Block>(std::exchange(first, first->next));
    }
    return std::make_unique<Block>(
        Block{.memory = c10::GetCPUAllocator()->allocate(rounded), .bytes = rounded});
  }
  void put_back(std::unique_ptr<Block> block) noexcept {
    const std::lock_guard lock(mutex_);
    Block*& first = free_of(block->bytes);
    block->next = first;
    first = block.release();
  }

 private:
  Block*& free_of(std::size_t rounded) {
    return free_[static_cast<std::size_t>(std::countr_zero(rounded))];
  }

  std::mutex mutex_;
  std::array<Block*, 64> free_ = {};  // The first of each size, by the power of two.
};

namespace {

void put_back(void* context) {
  std::unique_ptr<Block> block(static_cast<Block*>(context));
  const std::shared_ptr<BatchMemory::Shelf> shelf = std::move(block->shelf);
  shelf->put_back(std::move(block));
}

}  // namespace

BatchMemory::BatchMemory() : shelf_(std::make_shared<Shelf>()) {}

at::Tensor BatchMemory::empty(at::IntArrayRef sizes, at::ScalarType dtype) {
  if (is_pinned_) {
    at::Tensor made = empty_pinned(sizes, dtype);
    if (made.defined()) return made;
  }
  const std::size_t bytes = at::detail::computeStorageNbytesContiguous(sizes, elementSize(dtype));
  if (bytes == 0) return at::empty(sizes, dtype);
  std::unique_ptr<Block> block = shelf_->take(bytes);
  block->shelf = shelf_;
  void* const data = block->memory.get();
  at::Tensor made = at::detail::make_tensor<c10::TensorImpl>(
      at::Storage(at::Storage::use_byte_size_t(), bytes,
                  at::DataPtr(data, block.get(), &put_back, at::kCPU), c10::GetCPUAllocator(),
                  /*resizable=*/true),
      c10::DispatchKeySet(c10::DispatchKey::CPU), c10::scalarTypeToTypeMeta(dtype));
  static_cast<void>(block.release());  // The storage owns it.
  made.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  return made;
}

at::Tensor BatchMemory::empty_pinned(at::IntArrayRef sizes, at::ScalarType dtype) {
  try {
    return at::empty(sizes, at::TensorOptions(dtype).pinned_memory(true));
  } catch (const c10::Error&) {
    is_pinned_ = false;
    return {};
  }
}

at::Tensor BatchMemory::pinned(const at::Tensor& tensor) {
  if (!is_pinned_ || !fits_batch_memory(tensor) || tensor.is_pinned()) return tensor;
  at::Tensor made = empty_pinned(tensor.sizes(), tensor.scalar_type());
  return made.defined() ? made.copy_(tensor) : tensor;
}

bool fits_batch_memory(const at::Tensor& tensor) {
  return tensor.is_cpu() && tensor.layout() == at::kStrided && !tensor.is_quantized();
}

BatchMemoryScope::BatchMemoryScope(BatchMemory& memory)
    : before_(std::exchange(memory_of_thread, &memory)) {}
BatchMemoryScope::~BatchMemoryScope() { memory_of_thread = before_; }

at::Tensor empty_for_batch(at::IntArrayRef sizes, at::ScalarType dtype) {
  return memory_of_thread != nullptr ? memory_of_thread->empty(sizes, dtype)
                                     : at::empty(sizes, dtype);
}

}  // namespace cairn
