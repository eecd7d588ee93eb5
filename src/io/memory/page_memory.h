// Large anonymous memory, aligned to huge pages and requesting them. The first touch of 1 GiB then
// costs 512 page faults instead of 262,144. Also requests huge pages for other memory.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

namespace cairn {

class PageMemory {
 public:
  PageMemory() = default;
  // The memory is zeroed. Throws std::bad_alloc if there is no address space.
  explicit PageMemory(std::size_t bytes);
  ~PageMemory();
  PageMemory(PageMemory&& other) noexcept { swap(other); }
  PageMemory& operator=(PageMemory&& other) noexcept {
    swap(other);
    return *this;
  }

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  // Releases the pages of a part. The part reads as zeros when it is touched again. `offset` is a
  // multiple of the page size.
  void give_back(std::size_t offset, std::size_t bytes) const noexcept;

 private:
  void swap(PageMemory& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(mapping_, other.mapping_);
    std::swap(mapping_bytes_, other.mapping_bytes_);
  }

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  void* mapping_ = nullptr;  // the whole mapping; data_ is its aligned part
  std::size_t mapping_bytes_ = 0;
};

// Requests huge pages for foreign memory that has not been touched: as many as fit into it. Does
// nothing if the memory is smaller than a huge page.
void ask_for_huge_pages(void* begin, std::size_t bytes) noexcept;
// Reserves so many bytes in the text, and requests huge pages for them.
void reserve_pages(std::string& text, std::size_t bytes);

}  // namespace cairn
