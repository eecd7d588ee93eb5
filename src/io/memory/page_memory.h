// Large anonymous memory, aligned to huge pages and asking for them: the first touch of 1 GiB then
// costs 512 page faults instead of 262,144. And the same wish for memory of others.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

namespace cairn {

class PageMemory {
 public:
  PageMemory() = default;
  explicit PageMemory(std::size_t bytes);  // zeroed; std::bad_alloc when there is no address space
  ~PageMemory();
  PageMemory(PageMemory&& other) noexcept { swap(other); }
  PageMemory& operator=(PageMemory&& other) noexcept {
    swap(other);
    return *this;
  }

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  // Gives the pages of a part back: zeros stand there when it is touched again. `offset` is a
  // multiple of a page's size.
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
  void* mapping_ = nullptr;  // what data_ is the aligned part of
  std::size_t mapping_bytes_ = 0;
};

// Asks for huge pages for memory that somebody else has, and nobody has touched: as many as lie in
// it. Nothing where it is smaller than one.
void ask_for_huge_pages(void* begin, std::size_t bytes) noexcept;
// Makes room for so many bytes in the text, and asks for them.
void reserve_pages(std::string& text, std::size_t bytes);

}  // namespace cairn
