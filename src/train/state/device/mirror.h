// Memory that lies as a file does, so that a file is read into it whole, without a copy for each
// tensor, and tensors are made of its parts.
//
// It is one range of addresses, given back in pieces of 32 MiB: each when no part has any of it any
// more. What stands between the tensors (headers, some hundred bytes each) stays with its piece.
#pragma once

#include <c10/core/Storage.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace cairn {

class Mirror {
 public:
  // std::bad_alloc when there is no address space. Its memory is not touched here.
  explicit Mirror(std::uint64_t bytes);
  // Gives back what no part has.
  ~Mirror();
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;

  std::span<std::byte> all() const;
  // The memory from `offset` on, which must lie inside, as libtorch's own that may be resized: it
  // keeps its pieces when the mirror is gone. Parts may have the same memory. std::bad_alloc.
  c10::Storage part(std::uint64_t offset, std::size_t bytes);

  // Whether the memory is a part's of some mirror.
  static bool is_part(const c10::Storage& storage) noexcept;

 private:
  struct Memory;
  Memory* memory_;
};

}  // namespace cairn
