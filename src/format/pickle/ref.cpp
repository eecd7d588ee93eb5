#include "format/pickle/ref.h"

#include <algorithm>

#include "cairn/error.h"

namespace cairn::pickle {

void Refs::append(std::span<const Ref> refs, MemoryBudget& budget) {
  if (refs.size() > room() - size_) grow(refs.size(), budget);
  std::copy(refs.begin(), refs.end(), data() + size_);
  size_ += static_cast<std::uint32_t>(refs.size());
}

void Refs::resize(std::size_t size, MemoryBudget& budget) {
  if (size > room()) grow(size - size_, budget);
  if (size > size_) std::fill(data() + size_, data() + size, Ref::nothing());
  size_ = static_cast<std::uint32_t>(size);
}

void Refs::clear(MemoryBudget& budget) {
  budget.give_back(MemoryBudget::allocation(capacity_ * sizeof(Ref)));
  *this = {};
}

// By half, so that filling one takes time in proportion to its size; small ones exactly, and to the
// end of what the allocator hands out.
void Refs::grow(std::size_t more, MemoryBudget& budget) {
  constexpr std::size_t kMost = 0xFFFFFFF0;
  const std::size_t needed = size_ + more;
  if (needed > kMost) throw CorruptError("the pickle holds too many objects");
  std::size_t capacity = std::max<std::size_t>(needed, capacity_ + capacity_ / 2);
  capacity = std::min(kMost, (MemoryBudget::allocation(capacity * sizeof(Ref)) - 8) / sizeof(Ref));
  const std::uint64_t old_bytes = MemoryBudget::allocation(capacity_ * sizeof(Ref));
  budget.take(MemoryBudget::allocation(capacity * sizeof(Ref)));
  auto larger = std::make_unique_for_overwrite<Ref[]>(capacity);
  std::copy(begin(), end(), larger.get());
  if (capacity_ > 0) delete[] place_.outside;
  place_.outside = larger.release();
  capacity_ = static_cast<std::uint32_t>(capacity);
  budget.give_back(old_bytes);
}

}  // namespace cairn::pickle
