#include "format/zip/layout.h"

#include <algorithm>

#include "core/little_endian.h"

namespace cairn::zip {
namespace {

constexpr std::uint16_t kPaddingField = 0x4246;  // "FB"
constexpr char kPaddingByte = 'Z';

void put16(std::string& out, std::uint16_t v) { append_little_endian(out, v); }
void put32(std::string& out, std::uint32_t v) { append_little_endian(out, v); }
void put64(std::string& out, std::uint64_t v) { append_little_endian(out, v); }

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

// Nothing when nothing needs it. Torch writes the compressed size of a local header, not known
// then, as 0.
void append_zip64_field(std::string& out, const Placed& record, std::uint64_t compressed_size) {
  const std::size_t size = zip64_field_size(record.size, record.header_offset);
  if (size == 0) return;
  put16(out, kZip64Field);
  put16(out, static_cast<std::uint16_t>(size - 4));
  if (is_big(record.size)) {
    put64(out, record.size);
    put64(out, compressed_size);
  }
  if (is_big(record.header_offset)) put64(out, record.header_offset);
}

// Of the local header's end, which is where the record begins.
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
  put32(out, kLocalSignature);
  put16(out, 0);  // version needed
  put16(out, flags(size));
  put16(out, 0);  // method: stored
  put32(out, 0);  // time and date
  put32(out, 0);  // CRC and both sizes follow the data
  put32(out, 0);
  put32(out, 0);
  put16(out, static_cast<std::uint16_t>(name.size()));
  put16(out, static_cast<std::uint16_t>(zip64 + 4 + padding));
  out += name;
  append_zip64_field(out, {header_offset, size}, 0);
  put16(out, kPaddingField);
  put16(out, static_cast<std::uint16_t>(padding));
  out.append(padding, kPaddingByte);
}

void append_data_descriptor(std::string& out, const Placed& record, std::uint32_t crc32) {
  if (record.size == 0) return;
  put32(out, kDescriptorSignature);
  put32(out, crc32);
  for (int i = 0; i < 2; ++i) {  // compressed and uncompressed size
    if (is_big(record.size) || is_big(record.header_offset)) {
      put64(out, record.size);
    } else {
      put32(out, static_cast<std::uint32_t>(record.size));
    }
  }
}

void append_central_header(std::string& out, std::string_view name, const Placed& record,
                           std::uint32_t crc32) {
  put32(out, kCentralSignature);
  put16(out, 0);  // version made by
  put16(out, 0);  // version needed
  put16(out, flags(record.size));
  put16(out, 0);  // method
  put32(out, 0);  // time and date
  put32(out, crc32);
  put32(out, saturated32(record.size));
  put32(out, saturated32(record.size));
  put16(out, static_cast<std::uint16_t>(name.size()));
  put16(out, static_cast<std::uint16_t>(zip64_field_size(record.size, record.header_offset)));
  put16(out, 0);  // comment
  put16(out, 0);  // disk
  put16(out, 0);  // attributes
  put32(out, 0);
  put32(out, saturated32(record.header_offset));
  out += name;
  append_zip64_field(out, record, record.size);
}

std::string end_of_directory(const DirectoryExtent& directory) {
  std::string out;
  put32(out, kEnd64Signature);
  put64(out, kEnd64Size - 12);  // size of the rest
  put16(out, 0x031E);           // version made by
  put16(out, 0x002D);           // version needed
  put32(out, 0);                // disks
  put32(out, 0);
  put64(out, directory.entries);
  put64(out, directory.entries);
  put64(out, directory.size);
  put64(out, directory.offset);

  put32(out, kLocator64Signature);
  put32(out, 0);
  put64(out, directory.offset + directory.size);
  put32(out, 1);  // disks

  const auto entries =
      static_cast<std::uint16_t>(std::min<std::uint64_t>(directory.entries, kMax16));
  put32(out, kEndSignature);
  put32(out, 0);  // disks
  put16(out, entries);
  put16(out, entries);
  put32(out, saturated32(directory.size));
  put32(out, saturated32(directory.offset));
  put16(out, 0);  // comment
  return out;
}

}  // namespace cairn::zip
