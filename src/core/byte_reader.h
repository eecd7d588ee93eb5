// A cursor over unchecked bytes: no read goes past the end, whatever the file says.
#pragma once

#include <string>

#include "cairn/bytes.h"
#include "cairn/error.h"

#include "core/little_endian.h"

namespace cairn {

class ByteReader {
 public:
  // `what` names the thing being read in messages ("the end record") and must outlive the reader.
  // `base` is the offset of `bytes` in the file, for the offsets in errors.
  explicit ByteReader(ByteView bytes, const char* what, std::uint64_t base = 0)
      : bytes_(bytes), what_(what), base_(base) {}

  std::size_t position() const { return position_; }
  std::size_t remaining() const { return bytes_.size() - position_; }

  ByteView take(std::uint64_t count) {
    if (count > remaining()) ended(count);
    const ByteView taken = bytes_.subspan(position_, static_cast<std::size_t>(count));
    position_ += static_cast<std::size_t>(count);
    return taken;
  }
  std::string_view take_text(std::uint64_t count) { return as_text(take(count)); }

  std::uint8_t u8() { return number<std::uint8_t>(); }
  std::uint16_t u16() { return number<std::uint16_t>(); }
  std::uint32_t u32() { return number<std::uint32_t>(); }
  std::uint64_t u64() { return number<std::uint64_t>(); }

  // Returns the text up to the next line feed, and skips the line feed.
  std::string_view line() {
    const std::string_view rest = as_text(bytes_.subspan(position_));
    const std::size_t end = rest.find('\n');
    if (end == std::string_view::npos) ended(rest.size() + 1);
    position_ += end + 1;
    return rest.substr(0, end);
  }

 private:
  template <class T>
  T number() {
    return load_little_endian<T>(take(sizeof(T)).data());
  }

  [[noreturn]] void ended(std::uint64_t count) const {
    throw CorruptError(std::string(what_) + " ends too early: " + std::to_string(count) +
                           " bytes expected, " + std::to_string(remaining()) + " left",
                       {}, base_ + position_);
  }

  ByteView bytes_;
  const char* what_;
  std::uint64_t base_;
  std::size_t position_ = 0;
};

}  // namespace cairn
