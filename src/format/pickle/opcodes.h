// Pickle's opcodes, by Python's names (pickletools).
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

namespace cairn::pickle {

enum class Op : std::uint8_t {
  kMark = '(',
  kEmptyTuple = ')',
  kStop = '.',
  kPop = '0',
  kPopMark = '1',
  kDup = '2',
  kFloat = 'F',
  kBinFloat = 'G',
  kInt = 'I',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kLong = 'L',
  kBinInt2 = 'M',
  kNone = 'N',
  kPersId = 'P',
  kBinPersId = 'Q',
  kReduce = 'R',
  kString = 'S',
  kBinString = 'T',
  kShortBinString = 'U',
  kUnicode = 'V',
  kBinUnicode = 'X',
  kEmptyList = ']',
  kAppend = 'a',
  kBuild = 'b',
  kGlobal = 'c',
  kDict = 'd',
  kAppends = 'e',
  kGet = 'g',
  kBinGet = 'h',
  kInst = 'i',
  kLongBinGet = 'j',
  kList = 'l',
  kObj = 'o',
  kPut = 'p',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kSetItems = 'u',
  kEmptyDict = '}',
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kProto = 0x80,
  kNewObj = 0x81,
  kExt1 = 0x82,
  kExt2 = 0x83,
  kExt4 = 0x84,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kLong4 = 0x8b,
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kBinBytes8 = 0x8e,
  kEmptySet = 0x8f,
  kAddItems = 0x90,
  kFrozenSet = 0x91,
  kNewObjEx = 0x92,
  kStackGlobal = 0x93,
  kMemoize = 0x94,
  kFrame = 0x95,
  kByteArray8 = 0x96,
  kNextBuffer = 0x97,
  kReadonlyBuffer = 0x98,
};

constexpr int kHighestProtocol = 5;

// The put_...() functions write an opcode of protocol 2 with its operand at `at`, where this many
// bytes must be free. Each returns the position after the operand.
inline constexpr std::size_t kMaxOpcodeBytes = 10;

// Writes opcode and operand as one number: a processor stalls if bytes are stored separately and
// then read as one word. Always writes eight bytes at `at`.
template <std::unsigned_integral T>
char* put_op(char* at, Op code, T operand) {
  static_assert(sizeof(T) < sizeof(std::uint64_t));
  const std::uint64_t both = static_cast<std::uint8_t>(code) | std::uint64_t{operand} << 8;
  std::memcpy(at, &both, sizeof both);
  return at + 1 + sizeof(T);
}

// Writes the shortest opcode that can hold the number.
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

inline char* put_numbered(char* at, Op short_op, Op long_form_op, std::uint32_t number) {
  return number <= std::numeric_limits<std::uint8_t>::max()
             ? put_op(at, short_op, static_cast<std::uint8_t>(number))
             : put_op(at, long_form_op, number);
}
inline char* put_get(char* at, std::uint32_t number) {
  return put_numbered(at, Op::kBinGet, Op::kLongBinGet, number);
}
inline char* put_put(char* at, std::uint32_t number) {
  return put_numbered(at, Op::kBinPut, Op::kLongBinPut, number);
}

}  // namespace cairn::pickle
