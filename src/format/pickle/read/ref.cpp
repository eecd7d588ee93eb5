#include "format/pickle/read/ref.h"

#include <algorithm>
#include <new>

#include "cairn/error.h"

namespace cairn::pickle {

namespace {

constexpr std::size_t kLeastBlock = std::size_t{4} << 10;
constexpr std::size_t kMaxBlock = std::size_t{256} << 10;

std::uint64_t paid_for(std::size_t capacity) {
  return MemoryBudget::allocation(capacity * sizeof(Ref));
}

}  // namespace

Ref* RefMemory::take(std::size_t capacity) {
  budget_.take(paid_for(capacity));
  if (capacity > kMaxSmallRefs) return std::make_unique_for_overwrite<Ref[]>(capacity).release();
  Free*& first = free_[capacity / 2];
  if (first != nullptr) return reinterpret_cast<Ref*>(std::exchange(first, first->next));
  const std::size_t bytes = capacity * sizeof(Ref);
  if (left_ < bytes) {
    const std::size_t block =
        std::min(kMaxBlock, kLeastBlock << std::min<std::size_t>(blocks_.size(), 8));
    blocks_.push_back(std::make_unique_for_overwrite<std::byte[]>(block));
    next_ = blocks_.back().get();
    left_ = block;
  }
  left_ -= bytes;
  return reinterpret_cast<Ref*>(std::exchange(next_, next_ + bytes));
}

void RefMemory::give_back(Ref* refs, std::size_t capacity) noexcept {
  if (capacity == 0) return;
  budget_.give_back(paid_for(capacity));
  if (capacity > kMaxSmallRefs) {
    delete[] refs;
  } else {
    Free*& first = free_[capacity / 2];
    first = new (refs) Free{first};
  }
}

void Refs::append(std::span<const Ref> refs, RefMemory& memory) {
  if (refs.size() > room() - size_) grow(refs.size(), memory);
  std::copy(refs.begin(), refs.end(), data() + size_);
  size_ += static_cast<std::uint32_t>(refs.size());
}

void Refs::resize(std::size_t size, RefMemory& memory) {
  if (size > room()) grow(size - size_, memory);
  if (size > size_) std::fill(data() + size_, data() + size, Ref::nothing());
  size_ = static_cast<std::uint32_t>(size);
}

void Refs::clear(RefMemory& memory) {
  if (capacity_ > 0) memory.give_back(place_.outside, capacity_);
  capacity_ = 0;
  size_ = 0;
  place_ = {};
}

// Grows by half, so that filling takes linear time. Small vectors grow to the exact size, rounded
// up to the allocator's.
void Refs::grow(std::size_t more, RefMemory& memory) {
  constexpr std::size_t kMax = 0xFFFFFFF0;
  const std::size_t needed = size_ + more;
  if (needed > kMax) throw CorruptError("the pickle holds too many objects");
  std::size_t capacity = std::max<std::size_t>(needed, capacity_ + capacity_ / 2);
  capacity = std::min(kMax, (MemoryBudget::allocation(capacity * sizeof(Ref)) - 8) / sizeof(Ref));
  Ref* const larger = memory.take(capacity);
  std::copy(begin(), end(), larger);
  if (capacity_ > 0) memory.give_back(place_.outside, capacity_);
  place_.outside = larger;
  capacity_ = static_cast<std::uint32_t>(capacity);
}

}  // namespace cairn::pickle
