#include "io/memory/page_memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>

namespace cairn {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

}  // namespace

PageMemory::PageMemory(std::size_t bytes) : size_(bytes), mapping_bytes_(bytes + kHugePage) {
  mapping_ =
      mmap(nullptr, mapping_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping_ == MAP_FAILED) throw std::bad_alloc();
  const auto start = reinterpret_cast<std::uintptr_t>(mapping_);
  data_ = static_cast<std::byte*>(mapping_) + (kHugePage - start % kHugePage) % kHugePage;
  madvise(data_, size_, MADV_HUGEPAGE);  // a hint: without huge pages the memory is only slower
}

void PageMemory::give_back(std::size_t offset, std::size_t bytes) const noexcept {
  madvise(data_ + offset, bytes, MADV_DONTNEED);  // pages that are not released stay until the end
}

PageMemory::~PageMemory() {
  if (mapping_ != nullptr) munmap(mapping_, mapping_bytes_);
}

void ask_for_huge_pages(void* begin, std::size_t bytes) noexcept {
  if (bytes < kHugePage) return;
  const auto start = reinterpret_cast<std::uintptr_t>(begin);
  const std::size_t before = (kHugePage - start % kHugePage) % kHugePage;
  const std::size_t whole = (bytes - before) / kHugePage * kHugePage;
  if (whole > 0) madvise(static_cast<std::byte*>(begin) + before, whole, MADV_HUGEPAGE);
}

void reserve_pages(std::string& text, std::size_t bytes) {
  if (bytes <= text.capacity()) return;
  text.reserve(bytes);
  ask_for_huge_pages(text.data(), text.capacity());
}

}  // namespace cairn
