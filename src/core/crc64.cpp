#include "core/crc64.h"

#include <array>

namespace cairn {
namespace {

constexpr std::uint64_t kNvme = 0x9A6C9329AC4BC9B5;  // the polynomial, lowest power first
constexpr std::size_t kSlices = 16;

using Table = std::array<std::array<std::uint64_t, 256>, kSlices>;

// [s][b]: what a byte b does to the register, when s bytes come behind it.
constexpr Table make_nvme_table() {
  Table table = {};
  for (std::size_t b = 0; b < 256; ++b) {
    std::uint64_t crc = b;
    for (int bit = 0; bit < 8; ++bit) {
      crc = crc >> 1 ^ ((crc & 1) != 0 ? kNvme : 0);
    }
    table[0][b] = crc;
  }
  for (std::size_t s = 1; s < kSlices; ++s) {
    for (std::size_t b = 0; b < 256; ++b) {
      table[s][b] = table[s - 1][b] >> 8 ^ table[0][table[s - 1][b] & 0xFF];
    }
  }
  return table;
}

constexpr Table kNvmeTable = make_nvme_table();

std::uint64_t eight_bytes(const std::byte* at) {
  std::uint64_t word = 0;
  for (int i = 7; i >= 0; --i) {
    word = word << 8 | std::to_integer<std::uint64_t>(at[i]);
  }
  return word;
}

// The product of two polynomials modulo kNvme; the highest bit is x^0.
constexpr std::uint64_t product(std::uint64_t a, std::uint64_t b) {
  std::uint64_t result = 0;
  for (std::uint64_t bit = std::uint64_t{1} << 63; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) result ^= b;
    b = b >> 1 ^ ((b & 1) != 0 ? kNvme : 0);
  }
  return result;
}

}  // namespace

std::uint64_t crc64_nvme(ByteView bytes, std::uint64_t before) {
  std::uint64_t crc = ~before;
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= kSlices; left -= kSlices, at += kSlices) {
    const std::uint64_t low = crc ^ eight_bytes(at);
    const std::uint64_t high = eight_bytes(at + 8);
    crc = 0;
    for (unsigned i = 0; i < 8; ++i) {
      crc ^= kNvmeTable[15 - i][low >> 8 * i & 0xFF] ^ kNvmeTable[7 - i][high >> 8 * i & 0xFF];
    }
  }
  for (; left > 0; --left, ++at) {
    crc = crc >> 8 ^ kNvmeTable[0][(crc ^ std::to_integer<std::uint64_t>(*at)) & 0xFF];
  }
  return ~crc;
}

std::uint64_t crc64_nvme_joined(std::uint64_t first, std::uint64_t second, std::uint64_t size) {
  // first * x^(8 * size), by squaring.
  std::uint64_t shift = std::uint64_t{1} << 63;        // x^0
  std::uint64_t power = std::uint64_t{1} << (63 - 8);  // x^8
  for (; size > 0; size >>= 1) {
    if ((size & 1) != 0) shift = product(shift, power);
    power = product(power, power);
  }
  return product(first, shift) ^ second;
}

}  // namespace cairn
