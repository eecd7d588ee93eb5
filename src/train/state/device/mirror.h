// Memory with the layout of a file. The file is read into it whole, without a copy for each tensor,
// and tensors are made from its parts.
//
// A mirror is one range of addresses. It is released in pieces of 32 MiB, each piece when no part
// uses it any more. Bytes between the tensors (headers, some hundred bytes each) stay with their
// piece.
#pragma once

#include <c10/core/Storage.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace cairn {

class Mirror {
 public:
  // Throws std::bad_alloc if there is no address space. Does not touch the memory.
  explicit Mirror(std::uint64_t bytes);
  // Releases the pieces that no part uses.
  ~Mirror();
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;

  std::span<std::byte> all() const;
  // The memory from `offset` on, which must lie inside, as resizable memory of libtorch. A part
  // keeps its pieces alive after the mirror is gone. Parts may overlap. Throws std::bad_alloc.
  c10::Storage part(std::uint64_t offset, std::size_t bytes);

  // Whether the memory is a part of some mirror.
  static bool is_part(const c10::Storage& storage) noexcept;

 private:
  struct Memory;
  Memory* memory_;
};

}  // namespace cairn
