// The wire format of protocol buffers: what TensorBoard's and W&B's files consist of.
//
//   ProtoMessage scalar;
//   scalar.text(1, "loss").number(2, 0.5F);       // Summary.Value: tag, simple_value
//   ProtoMessage event;
//   event.message(5, ProtoMessage().message(1, scalar));
//
// Fields are written in the order of the calls, and a zero is written, too, unlike a generated
// writer's. Readers do not mind either.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/little_endian.h"

namespace cairn {

class ProtoMessage {
 public:
  // int32, int64, uint64, bool and enumerations.
  ProtoMessage& integer(int field, std::int64_t value) {
    tag(field, kVarint);
    varint(static_cast<std::uint64_t>(value));
    return *this;
  }
  ProtoMessage& number(int field, double value) {
    tag(field, kFixed64);
    append_little_endian(bytes_, std::bit_cast<std::uint64_t>(value));
    return *this;
  }
  ProtoMessage& number(int field, float value) {
    tag(field, kFixed32);
    append_little_endian(bytes_, std::bit_cast<std::uint32_t>(value));
    return *this;
  }
  // string and bytes.
  ProtoMessage& text(int field, std::string_view value) {
    tag(field, kLengthDelimited);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  ProtoMessage& message(int field, const ProtoMessage& value) { return text(field, value.bytes()); }
  // repeated double, packed.
  ProtoMessage& numbers(int field, std::span<const double> values) {
    tag(field, kLengthDelimited);
    varint(values.size_bytes());
    bytes_ += as_text(std::as_bytes(values));
    return *this;
  }

  const std::string& bytes() const { return bytes_; }

 private:
  static constexpr unsigned kVarint = 0;
  static constexpr unsigned kFixed64 = 1;
  static constexpr unsigned kLengthDelimited = 2;
  static constexpr unsigned kFixed32 = 5;

  void tag(int field, unsigned type) { varint(static_cast<std::uint64_t>(field) << 3U | type); }
  void varint(std::uint64_t value) {
    constexpr unsigned kBits = 7;
    constexpr unsigned kMore = 1U << kBits;
    for (; value >= kMore; value >>= kBits)
      bytes_ += static_cast<char>((value & (kMore - 1)) | kMore);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

}  // namespace cairn
