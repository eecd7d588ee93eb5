// Numbers as they are in files: little-endian, at any alignment.
#pragma once

#include <bit>
#include <concepts>
#include <cstring>
#include <string>

#include "cairn/bytes.h"

namespace cairn {

static_assert(std::endian::native == std::endian::little,
              "cairn copies tensor bytes as they are in memory");

// `at` must point at sizeof(T) bytes.
template <std::unsigned_integral T>
T load_little_endian(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

template <std::unsigned_integral T>
void append_little_endian(std::string& out, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

}  // namespace cairn
