// Packs numbers and texts that ranks send to one another. A number has seven bits in each byte, the
// lowest first. A text follows its length. A reader checks received bytes like those of any foreign
// file.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "cairn/bytes.h"
#include "cairn/error.h"

namespace cairn::sharded {

class PackedWriter {
 public:
  void number(std::uint64_t v) {
    for (; v >= 0x80; v >>= 7) {
      out_.push_back(static_cast<char>(v | 0x80));
    }
    out_.push_back(static_cast<char>(v));
  }
  void text(std::string_view v) {
    number(v.size());
    out_ += v;
  }
  void plain(std::string_view v) { out_ += v; }
  std::size_t size() const { return out_.size(); }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

// No read goes past the end. Throws CorruptError, which names what was being read.
class PackedReader {
 public:
  PackedReader(std::string_view bytes, const char* what)
      : at_(bytes.data()), end_(bytes.data() + bytes.size()), what_(what) {}

  std::size_t remaining() const { return static_cast<std::size_t>(end_ - at_); }
  const char* position() const { return at_; }

  std::uint64_t number() {
    if (at_ != end_ && static_cast<unsigned char>(*at_) < 0x80) {
      return static_cast<unsigned char>(*at_++);
    }
    return long_number();
  }
  // Reads a number of at most `most`.
  std::uint64_t number(std::uint64_t most) {
    const std::uint64_t v = number();
    if (v > most) {
      fail("has " + std::to_string(v) + " where at most " + std::to_string(most) + " is possible");
    }
    return v;
  }
  // Reads the number of following things, each of which takes at least a byte.
  std::size_t count() { return static_cast<std::size_t>(number(remaining())); }
  std::string_view text() { return plain(count()); }
  std::string_view plain(std::size_t size) {
    if (size > remaining()) fail("ends too early");
    const std::string_view v(at_, size);
    at_ += size;
    return v;
  }
  // Reads the mark before a text: its kind, and the version of its layout. Throws UnsupportedError
  // for another mark.
  void expect_mark(std::string_view mark) {
    if (remaining() < mark.size()) fail("is too short to be one");
    if (plain(mark.size()) == mark) return;
    throw UnsupportedError(
        std::string(what_) +
        " has another layout than this cairn's: all ranks must run the same version");
  }
  void expect_end() const {
    if (at_ != end_) fail("goes on after its end");
  }
  [[noreturn]] void fail(const std::string& how) const {
    throw CorruptError(std::string(what_) + " " + how);
  }

 private:
  // Reads up to eight bytes at once. There are tens of millions of numbers, and a processor cannot
  // predict the length of the next one.
  [[gnu::noinline]] std::uint64_t long_number() {
    std::uint64_t v = 0;
    if (remaining() < sizeof v) return number_by_bytes();
    std::memcpy(&v, at_, sizeof v);
    // the top bits of those bytes that may be the last byte of the number
    const std::uint64_t last = ~v & 0x8080808080808080U;
    if (last == 0) return number_by_bytes();
    at_ += std::countr_zero(last) / 8 + 1;
    v &= last ^ (last - 1);  // the bits up to the first bit in `last`
    v = (v & 0x007F007F007F007FU) | (v & 0x7F007F007F007F00U) >> 1;
    v = (v & 0x00003FFF00003FFFU) | (v & 0x3FFF00003FFF0000U) >> 2;
    return (v & 0x0FFFFFFFU) | (v & 0x0FFFFFFF00000000U) >> 4;
  }

  std::uint64_t number_by_bytes() {
    std::uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (at_ == end_) fail("ends too early");
      const auto byte = static_cast<unsigned char>(*at_++);
      const std::uint64_t bits = byte & 0x7FU;
      if (shift == 63 && bits > 1) break;
      v |= bits << shift;
      if (byte < 0x80) return v;
    }
    fail("has a number of more than 64 bits");
  }

  const char* at_;
  const char* end_;
  const char* what_;
};

}  // namespace cairn::sharded
