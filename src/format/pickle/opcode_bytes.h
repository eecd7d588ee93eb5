// Opcodes of pickle protocol 2 with their operands, put where there is room for kMostOpcodeBytes.
// Each function returns the place behind what it put there.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#include "format/pickle/opcodes.h"

namespace cairn::pickle {

inline constexpr std::size_t kMostOpcodeBytes = 10;

// Put together as a number: a processor waits for bytes that were stored apart and are read as one.
// The eight bytes at `at` are written.
template <std::unsigned_integral T>
char* put_op(char* at, Op code, T operand) {
  static_assert(sizeof(T) < sizeof(std::uint64_t));
  const std::uint64_t both = static_cast<std::uint8_t>(code) | std::uint64_t{operand} << 8;
  std::memcpy(at, &both, sizeof both);
  return at + 1 + sizeof(T);
}

// The shortest that has the number.
inline char* put_integer(char* at, std::int64_t v) {
  if (std::in_range<std::uint8_t>(v)) return put_op(at, Op::kBinInt1, static_cast<std::uint8_t>(v));
  if (std::in_range<std::uint16_t>(v)) {
    return put_op(at, Op::kBinInt2, static_cast<std::uint16_t>(v));
  }
  if (std::in_range<std::int32_t>(v)) return put_op(at, Op::kBinInt, static_cast<std::uint32_t>(v));
  const auto bits = std::bit_width(static_cast<std::uint64_t>(v < 0 ? ~v : v));
  const auto bytes = static_cast<std::size_t>(bits) / 8 + 1;  // with a bit for the sign
  at = put_op(at, Op::kLong1, static_cast<std::uint8_t>(bytes));
  std::memcpy(at, &v, sizeof v);
  return at + bytes;
}

inline char* put_numbered(char* at, Op of_byte, Op of_more, std::uint32_t number) {
  return number <= std::numeric_limits<std::uint8_t>::max()
             ? put_op(at, of_byte, static_cast<std::uint8_t>(number))
             : put_op(at, of_more, number);
}
inline char* put_get(char* at, std::uint32_t number) {
  return put_numbered(at, Op::kBinGet, Op::kLongBinGet, number);
}
inline char* put_put(char* at, std::uint32_t number) {
  return put_numbered(at, Op::kBinPut, Op::kLongBinPut, number);
}

}  // namespace cairn::pickle
