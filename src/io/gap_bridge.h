// Reading many pieces of memory that lie almost one behind the other, as an allocator places them.
//
// A processor reads ahead of what is read line by line, which makes it three times as fast, and
// stops where some lines are left out: 100,000 tensors of 10 KiB with 600 bytes of the allocator's
// and of libtorch's between them took twice the time of as many without (Zen 4: from four lines
// on). So the lines between them are fetched, too.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cairn/bytes.h"

namespace cairn {

constexpr std::size_t kCacheLine = 64;

class GapBridge {
 public:
  // `piece` is read next, from its begin to its end. Touches no byte: what lies between it and the
  // one before need not be anybody's, and that one may be gone.
  void before(ByteView piece) {
    const auto begin = reinterpret_cast<std::uintptr_t>(piece.data());
    const std::uintptr_t gap = begin - end_;  // huge when it lies before that one
    for (std::uintptr_t i = 0; gap <= kMostBridged && i < gap; i += kCacheLine) {
      __builtin_prefetch(reinterpret_cast<const void*>(end_ + i));
    }
    end_ = begin + piece.size();
  }

 private:
  static constexpr std::uintptr_t kMostBridged = std::uintptr_t{2} << 10;

  std::uintptr_t end_ = 0;
};

}  // namespace cairn
