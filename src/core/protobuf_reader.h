// Reads the wire format of protocol buffers, which ProtoMessage (protobuf.h) writes. The bytes need
// not be trusted.
//
//   ProtoReader event(bytes);
//   while (const auto field = event.next()) {
//     if (field->is_integer(2)) step = field->integer();
//   }
//   if (!event.is_whole()) ...   // the bytes are no message
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/little_endian.h"

namespace cairn {

// A field with a number that one knows, but of another wire type, is an unknown field: the
// functions is_...() are false for it.
class ProtoField {
 public:
  // int32, int64, uint64, bool and enumerations.
  bool is_integer(int field) const { return is(field, kVarint); }
  bool is_double(int field) const { return is(field, kFixed64); }
  bool is_float(int field) const { return is(field, kFixed32); }
  // string, bytes, a message, or repeated numbers that are packed.
  bool is_text(int field) const { return is(field, kLengthDelimited); }

  std::int64_t integer() const { return static_cast<std::int64_t>(bits_); }
  double as_double() const { return std::bit_cast<double>(bits_); }
  float as_float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits_)); }
  std::string_view text() const { return text_; }

 private:
  friend class ProtoReader;
  static constexpr unsigned kVarint = 0;
  static constexpr unsigned kFixed64 = 1;
  static constexpr unsigned kLengthDelimited = 2;
  static constexpr unsigned kFixed32 = 5;

  bool is(int field, unsigned type) const {
    return number_ == static_cast<std::uint64_t>(field) && type_ == type;
  }

  std::uint64_t number_ = 0;
  unsigned type_ = kVarint;
  std::uint64_t bits_ = 0;
  std::string_view text_;
};

class ProtoReader {
 public:
  // The message must outlive the reader and the texts of its fields.
  explicit ProtoReader(std::string_view message) : rest_(message) {}

  // The next field. nullopt at the end, and where the bytes are no field.
  std::optional<ProtoField> next() {
    ProtoField field;
    if (!rest_.empty() && is_whole_ && take(field)) return field;
    return std::nullopt;
  }
  // After next() gave nullopt: whether all bytes were fields.
  bool is_whole() const { return is_whole_; }

 private:
  // Groups (wire types 3 and 4) are older than all messages that cairn reads.
  bool take(ProtoField& field) {
    std::uint64_t tag = 0;
    if (!take_varint(tag)) return false;
    field.number_ = tag >> 3U;
    field.type_ = tag & 7U;
    if (field.type_ == ProtoField::kVarint) return take_varint(field.bits_);
    if (field.type_ == ProtoField::kFixed64) return take_fixed<std::uint64_t>(field.bits_);
    if (field.type_ == ProtoField::kFixed32) return take_fixed<std::uint32_t>(field.bits_);
    std::uint64_t size = 0;
    if (field.type_ != ProtoField::kLengthDelimited || !take_varint(size) || size > rest_.size())
      return is_whole_ = false;
    field.text_ = take_bytes(static_cast<std::size_t>(size));
    return true;
  }
  bool take_varint(std::uint64_t& value) {
    constexpr unsigned kBits = 7;
    constexpr unsigned kMore = 1U << kBits;
    value = 0;
    for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += kBits) {
      const auto byte = static_cast<unsigned char>(take_bytes(1).front());
      value |= std::uint64_t{byte & (kMore - 1)} << shift;
      if (byte < kMore) return true;
    }
    return is_whole_ = false;
  }
  template <class Bits>
  bool take_fixed(std::uint64_t& value) {
    if (rest_.size() < sizeof(Bits)) return is_whole_ = false;
    value = load_little_endian<Bits>(as_bytes(take_bytes(sizeof(Bits))).data());
    return true;
  }
  std::string_view take_bytes(std::size_t count) {
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }

  std::string_view rest_;
  bool is_whole_ = true;
};

}  // namespace cairn
