// Parses the opcodes of a tensor, as torch.save and cairn write them, in one step.
//
// A checkpoint's pickle consists mostly of tensors. Each takes 30 opcodes and ten objects, and
// differs from others only in a key and some numbers. Opcodes after these refer only to the tensor
// itself, not to its parts.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "cairn/bytes.h"
#include "cairn/tensor.h"

#include "core/little_endian.h"
#include "format/pickle/opcodes.h"

namespace cairn::pickle {

// A cursor over the next opcodes, independent of the machine's position. Each function returns
// nullopt or false if the bytes are not as expected, or end; the cursor's position is then
// undefined.
class OpcodeCursor {
 public:
  explicit OpcodeCursor(ByteView bytes) : bytes_(bytes) {}

  std::size_t position() const { return at_; }

  bool skip(Op op) {
    if (at_ == bytes_.size() || static_cast<Op>(bytes_[at_]) != op) return false;
    ++at_;
    return true;
  }
  // Reads a BINGET or BINPUT, or its long form.
  std::optional<std::uint32_t> index(Op one_byte, Op four_bytes) {
    if (skip(one_byte)) return number<std::uint8_t>();
    if (skip(four_bytes)) return number<std::uint32_t>();
    return std::nullopt;
  }
  std::optional<std::int64_t> integer() {
    if (skip(Op::kBinInt1)) return number<std::uint8_t>();
    if (skip(Op::kBinInt2)) return number<std::uint16_t>();
    if (!skip(Op::kBinInt)) return std::nullopt;
    const auto value = number<std::uint32_t>();
    if (!value) return std::nullopt;
    return static_cast<std::int32_t>(*value);
  }
  // Reads a short ASCII text.
  std::optional<std::string_view> text() {
    constexpr std::size_t kMax = 20;
    if (!skip(Op::kBinUnicode)) return std::nullopt;
    const auto size = number<std::uint32_t>();
    if (!size || *size > kMax || *size > bytes_.size() - at_) return std::nullopt;
    const std::string_view found = as_text(bytes_.subspan(at_, *size));
    at_ += *size;
    for (const char c : found) {
      if (static_cast<unsigned char>(c) >= 0x80) return std::nullopt;
    }
    return found;
  }
  // Reads a tuple of ints.
  std::optional<Dims> integers() {
    constexpr std::size_t kMax = 8;
    constexpr std::array kTuples = {Op::kEmptyTuple, Op::kTuple1, Op::kTuple2, Op::kTuple3};
    const bool has_mark = skip(Op::kMark);
    std::array<std::int64_t, kMax> found = {};
    std::size_t count = 0;
    while (const auto value = integer()) {
      if (count == kMax) return std::nullopt;
      found[count++] = *value;
    }
    if (!has_mark && count >= kTuples.size()) return std::nullopt;
    if (!skip(has_mark ? Op::kTuple : kTuples[count])) return std::nullopt;
    return Dims(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(count));
  }

 private:
  template <class T>
  std::optional<T> number() {
    if (bytes_.size() - at_ < sizeof(T)) return std::nullopt;
    at_ += sizeof(T);
    return load_little_endian<T>(bytes_.data() + at_ - sizeof(T));
  }

  ByteView bytes_;
  std::size_t at_ = 0;
};

}  // namespace cairn::pickle
