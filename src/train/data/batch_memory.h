// Memory of batches that is used again.
//
// Fresh memory of a large batch costs a page fault for every 4 KiB that a worker writes, which can
// take as long as making the samples.
//
//  1. Blocks have sizes of powers of two. Rounding up costs address space only: the memory of the
//     rest is never touched.
//  2. A block comes back when the last tensor that shares its memory is destroyed, on whatever
//     thread. So a batch that is still in use is never overwritten.
//  3. For each size, as many blocks are kept as were in use at once. They are freed with the
//     BatchMemory, or later, when they come back.
//  4. Pinned memory is libtorch's: its allocator uses blocks again, too, and knows which of them a
//     device still reads.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <memory>

namespace cairn {

// Thread-safe.
class BatchMemory {
 public:
  BatchMemory();

  // From now on, empty() gives pinned memory, if libtorch can pin memory in this process.
  void pin() { is_pinned_ = true; }
  // Whether empty() gives pinned memory.
  bool is_pinned() const { return is_pinned_; }

  // A contiguous tensor of the CPU, not initialised.
  at::Tensor empty(at::IntArrayRef sizes, at::ScalarType dtype);
  // `tensor`, or a copy in pinned memory if is_pinned() and `tensor` is neither pinned nor on a
  // device.
  at::Tensor pinned(const at::Tensor& tensor);

  class Shelf;

 private:
  // empty() of pinned memory. Undefined if libtorch has none; then it is not asked again.
  at::Tensor empty_pinned(at::IntArrayRef sizes, at::ScalarType dtype);

  std::shared_ptr<Shelf> shelf_;
  std::atomic<bool> is_pinned_ = false;
};

// Whether empty_for_batch() can make tensors of this one's kind: of the CPU, and ordinary ones.
bool fits_batch_memory(const at::Tensor& tensor);

// While this object lives, empty_for_batch() on this thread takes memory from `memory`.
class BatchMemoryScope {
 public:
  explicit BatchMemoryScope(BatchMemory& memory);
  ~BatchMemoryScope();
  BatchMemoryScope(const BatchMemoryScope&) = delete;
  BatchMemoryScope& operator=(const BatchMemoryScope&) = delete;

 private:
  BatchMemory* before_;
};

}  // namespace cairn
