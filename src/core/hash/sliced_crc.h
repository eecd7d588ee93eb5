// CRCs of 32 or 64 bits whose lowest bit is the highest power. The CRC of long input is computed by
// folding (crc_folding.h) if the processor can do that. All other input goes through tables, 16
// bytes at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "cairn/bytes.h"

#include "core/hash/crc_folding.h"

namespace cairn {

// `kPolynomial`: lowest power first. The register starts, and is returned, with all bits inverted.
template <typename Word, Word kPolynomial>
class SlicedCrc {
 public:
  // CRC of `bytes`. Pass the CRC of preceding bytes as `before` to continue it. `fold` is at most
  // best_crc_fold(); kNone uses only tables.
  static Word of(ByteView bytes, Word before, CrcFold fold = best_crc_fold()) {
    Word crc = static_cast<Word>(~before);
    const std::size_t folds = bytes.size() - bytes.size() % kFoldedAtOnce;
    if (folds > 0 && fold != CrcFold::kNone) {
      crc = through_tables(folded(bytes.first(folds), crc, kFolding, fold), 0);
      bytes = bytes.subspan(folds);
    }
    return static_cast<Word>(~through_tables(bytes, crc));
  }

  // As of(), and also copies the bytes to `to`, past the cache. The number of bytes and the address
  // `to` must be multiples of 64. `fold` must not be kNone.
  static Word of_and_copy(ByteView bytes, Word before, std::byte* to,
                          CrcFold fold = best_crc_fold()) {
    if (bytes.empty()) return before;
    const auto crc = static_cast<Word>(~before);
    return static_cast<Word>(~through_tables(folded_and_copied(bytes, crc, kFolding, to, fold), 0));
  }

  // CRC of two joined ranges with the CRCs `first` and `second`; the second has `size` bytes.
  static Word joined(Word first, Word second, std::uint64_t size) {
    // first * x^(8 * size), by squaring.
    Word shift = kOne;                          // x^0
    Word power = static_cast<Word>(kOne >> 8);  // x^8
    for (; size > 0; size >>= 1) {
      if ((size & 1) != 0) shift = product(shift, power);
      power = product(power, power);
    }
    return product(first, shift) ^ second;
  }

 private:
  static constexpr std::size_t kSlices = 16;
  static constexpr std::size_t kFoldedAtOnce = 64;
  static constexpr Word kOne = static_cast<Word>(Word{1} << (8 * sizeof(Word) - 1));
  using Table = std::array<std::array<Word, 256>, kSlices>;

  // Returns the value of the register after `bytes`, if the register was `crc` before them.
  static Word through_tables(ByteView bytes, Word crc) {
    const std::byte* at = bytes.data();
    std::size_t left = bytes.size();
    for (; left >= kSlices; left -= kSlices, at += kSlices) {
      const std::uint64_t low = crc ^ eight_bytes(at);
      const std::uint64_t high = eight_bytes(at + 8);
      crc = 0;
      for (unsigned i = 0; i < 8; ++i) {
        crc ^= kTable[15 - i][low >> 8 * i & 0xFF] ^ kTable[7 - i][high >> 8 * i & 0xFF];
      }
    }
    for (; left > 0; --left, ++at) {
      crc = static_cast<Word>(crc >> 8 ^ kTable[0][(crc ^ std::to_integer<Word>(*at)) & 0xFF]);
    }
    return crc;
  }

  // x^exponent.
  static constexpr Word power_of_x(unsigned exponent) {
    Word power = kOne;
    for (; exponent > 0; --exponent) {
      power = power >> 1 ^ ((power & 1) != 0 ? kPolynomial : 0);
    }
    return power;
  }

  // The factors to move 16 bytes past `bits`. The first 8 bytes are 64 bits further ahead. The
  // processor's product of two 64-bit polynomials has 127 bits, so in 128 bits it is one power too
  // high.
  static constexpr std::array<std::uint64_t, 2> past(unsigned bits) {
    constexpr unsigned kToHighest = 64 - 8 * sizeof(Word);
    return {static_cast<std::uint64_t>(power_of_x(bits + 63)) << kToHighest,
            static_cast<std::uint64_t>(power_of_x(bits - 1)) << kToHighest};
  }

  // [s][b]: the effect of a byte b on the register when s bytes follow it.
  static constexpr Table make_table() {
    Table table = {};
    for (std::size_t b = 0; b < 256; ++b) {
      Word crc = static_cast<Word>(b);
      for (int bit = 0; bit < 8; ++bit) {
        crc = crc >> 1 ^ ((crc & 1) != 0 ? kPolynomial : 0);
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

  // The product of two polynomials modulo kPolynomial; the highest bit is x^0.
  static constexpr Word product(Word a, Word b) {
    Word result = 0;
    for (Word bit = kOne; bit != 0; bit >>= 1) {
      if ((a & bit) != 0) result ^= b;
      b = b >> 1 ^ ((b & 1) != 0 ? kPolynomial : 0);
    }
    return result;
  }

  static std::uint64_t eight_bytes(const std::byte* at) {
    std::uint64_t word = 0;
    for (int i = 7; i >= 0; --i) {
      word = word << 8 | std::to_integer<std::uint64_t>(at[i]);
    }
    return word;
  }

  static constexpr Table kTable = make_table();
  static constexpr CrcFolding kFolding = {
      .past_256 = past(2048), .past_64 = past(512), .past_16 = past(128)};
};

}  // namespace cairn
