// Bytes without repetition.
#pragma once

#include <cstdint>
#include <string>

namespace cairn::testing {

// Bytes that differ everywhere, so that a block written twice or not at all shows.
inline std::string pattern(std::size_t size) {
  std::string bytes(size, '\0');
  std::uint64_t x = 88172645463325252U;
  for (char& byte : bytes) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    byte = static_cast<char>(x);
  }
  return bytes;
}

}  // namespace cairn::testing
