#include "format/zip/layout.h"

#include <algorithm>
#include <array>

namespace cairn::zip {
namespace {

constexpr std::uint16_t kPaddingField = 0x4246;  // "FB"
constexpr char kPaddingByte = 'Z';

// Collects the numbers of a header, little-endian. A file has three headers for each record, and
// appending numbers to a string one by one takes three times as long.
class Numbers {
 public:
  void put16(std::uint16_t v) { put(v); }
  void put32(std::uint32_t v) { put(v); }
  void put64(std::uint64_t v) { put(v); }

  std::string_view text() const { return {bytes_.data(), size_}; }

 private:
  template <class Number>
  void put(Number v) {
    for (std::size_t i = 0; i < sizeof v; ++i) {
      bytes_[size_ + i] = static_cast<char>(v >> (8 * i));
    }
    size_ += sizeof v;
  }

  std::array<char, 128> bytes_;  // more than any header has
  std::size_t size_ = 0;
};

bool is_big(std::uint64_t v) { return v >= kMax32; }
std::uint32_t saturated32(std::uint64_t v) {
  return is_big(v) ? kMax32 : static_cast<std::uint32_t>(v);
}

std::uint16_t flags(std::uint64_t size) {
  return static_cast<std::uint16_t>(size > 0 ? kFlagUtf8 | kFlagDescriptor : kFlagUtf8);
}

std::size_t zip64_field_size(std::uint64_t size, std::uint64_t offset) {
  const std::size_t content = (is_big(size) ? 16U : 0U) + (is_big(offset) ? 8U : 0U);
  return content == 0 ? 0 : 4 + content;
}

// Writes nothing if no number needs a Zip64 field. In a local header PyTorch writes the compressed
// size, which it does not know yet, as 0.
void put_zip64_field(Numbers& out, const Placed& record, std::uint64_t compressed_size) {
  const std::size_t size = zip64_field_size(record.size, record.header_offset);
  if (size == 0) return;
  out.put16(kZip64Field);
  out.put16(static_cast<std::uint16_t>(size - 4));
  if (is_big(record.size)) {
    out.put64(record.size);
    out.put64(compressed_size);
  }
  if (is_big(record.header_offset)) out.put64(record.header_offset);
}

// Returns the padding at the end of a local header, after which the record begins.
std::uint64_t padding_at(std::uint64_t unpadded_end) {
  return (kAlignment - unpadded_end % kAlignment) % kAlignment;
}

}  // namespace

std::uint64_t local_header_size(std::size_t name_size, std::uint64_t header_offset,
                                std::uint64_t size) {
  const std::uint64_t unpadded =
      kLocalHeaderSize + name_size + zip64_field_size(size, header_offset) + 4;
  return unpadded + padding_at(header_offset + unpadded);
}

std::uint64_t data_descriptor_size(const Placed& record) {
  if (record.size == 0) return 0;
  return is_big(record.size) || is_big(record.header_offset) ? 24 : 16;
}

std::uint64_t central_header_size(std::size_t name_size, const Placed& record) {
  return kCentralHeaderSize + name_size + zip64_field_size(record.size, record.header_offset);
}

void append_local_header(std::string& out, std::string_view name, std::uint64_t header_offset,
                         std::uint64_t size) {
  const std::size_t zip64 = zip64_field_size(size, header_offset);
  const std::uint64_t padding =
      padding_at(header_offset + kLocalHeaderSize + name.size() + zip64 + 4);
  Numbers head;
  head.put32(kLocalSignature);
  head.put16(0);  // version needed
  head.put16(flags(size));
  head.put16(0);  // method: stored
  head.put32(0);  // time and date
  head.put32(0);  // CRC and both sizes follow the data
  head.put32(0);
  head.put32(0);
  head.put16(static_cast<std::uint16_t>(name.size()));
  head.put16(static_cast<std::uint16_t>(zip64 + 4 + padding));
  out += head.text();
  out += name;
  Numbers behind;
  put_zip64_field(behind, {header_offset, size}, 0);
  behind.put16(kPaddingField);
  behind.put16(static_cast<std::uint16_t>(padding));
  out += behind.text();
  out.append(padding, kPaddingByte);
}

void append_data_descriptor(std::string& out, const Placed& record, std::uint32_t crc32) {
  if (record.size == 0) return;
  Numbers head;
  head.put32(kDescriptorSignature);
  head.put32(crc32);
  for (int i = 0; i < 2; ++i) {  // compressed and uncompressed size
    if (is_big(record.size) || is_big(record.header_offset)) {
      head.put64(record.size);
    } else {
      head.put32(static_cast<std::uint32_t>(record.size));
    }
  }
  out += head.text();
}

void append_central_header(std::string& out, std::string_view name, const Placed& record,
                           std::uint32_t crc32) {
  Numbers head;
  head.put32(kCentralSignature);
  head.put16(0);  // version made by
  head.put16(0);  // version needed
  head.put16(flags(record.size));
  head.put16(0);  // method
  head.put32(0);  // time and date
  head.put32(crc32);
  head.put32(saturated32(record.size));
  head.put32(saturated32(record.size));
  head.put16(static_cast<std::uint16_t>(name.size()));
  head.put16(static_cast<std::uint16_t>(zip64_field_size(record.size, record.header_offset)));
  head.put16(0);  // comment
  head.put16(0);  // disk
  head.put16(0);  // attributes
  head.put32(0);
  head.put32(saturated32(record.header_offset));
  out += head.text();
  out += name;
  Numbers behind;
  put_zip64_field(behind, record, record.size);
  out += behind.text();
}

std::string end_of_directory(const DirectoryExtent& directory) {
  Numbers head;
  head.put32(kEnd64Signature);
  head.put64(kEnd64Size - 12);  // size of the rest
  head.put16(0x031E);           // version made by
  head.put16(0x002D);           // version needed
  head.put32(0);                // disks
  head.put32(0);
  head.put64(directory.entries);
  head.put64(directory.entries);
  head.put64(directory.size);
  head.put64(directory.offset);

  head.put32(kLocator64Signature);
  head.put32(0);
  head.put64(directory.offset + directory.size);
  head.put32(1);  // disks

  const auto entries =
      static_cast<std::uint16_t>(std::min<std::uint64_t>(directory.entries, kMax16));
  head.put32(kEndSignature);
  head.put32(0);  // disks
  head.put16(entries);
  head.put16(entries);
  head.put32(saturated32(directory.size));
  head.put32(saturated32(directory.offset));
  head.put16(0);  // comment
  return std::string(head.text());
}

}  // namespace cairn::zip
