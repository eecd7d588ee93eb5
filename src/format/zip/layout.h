// How PyTorch lays out the zip of torch.save, byte for byte: stored records, each aligned by
// padding in its local header, sizes and CRC after the data, Zip64 where a number needs it and at
// the end always. One place for the writer and for the check that a file is laid out so.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cairn/format/torch_file.h"

namespace cairn::zip {

constexpr std::uint32_t kLocalSignature = 0x04034b50;
constexpr std::uint32_t kDescriptorSignature = 0x08074b50;
constexpr std::uint32_t kCentralSignature = 0x02014b50;
constexpr std::uint32_t kEnd64Signature = 0x06064b50;
constexpr std::uint32_t kLocator64Signature = 0x07064b50;
constexpr std::uint32_t kEndSignature = 0x06054b50;

constexpr std::size_t kLocalHeaderSize = 30;
constexpr std::size_t kCentralHeaderSize = 46;
constexpr std::size_t kEnd64Size = 56;
constexpr std::size_t kLocator64Size = 20;
constexpr std::size_t kEndSize = 22;

constexpr std::uint16_t kZip64Field = 0x0001;
constexpr std::uint16_t kFlagEncrypted = 0x0001;
constexpr std::uint16_t kFlagDescriptor = 0x0008;  // sizes and CRC follow the data
constexpr std::uint16_t kFlagUtf8 = 0x0800;

constexpr std::uint16_t kMax16 = 0xFFFF;
constexpr std::uint32_t kMax32 = 0xFFFFFFFF;
constexpr std::uint64_t kAlignment = 64;  // of every record's first byte

// What the bytes around a record follow from, its name and CRC aside.
struct Placed {
  std::uint64_t header_offset = 0;
  std::uint64_t size = 0;
};

// A record and its place. The name inside the zip is prefix + "/" + record.name.
struct Entry {
  FileRecord record;
  std::uint64_t header_offset = 0;
  // As the directory of a file that is read says:
  std::uint16_t flags = 0;
  std::uint16_t method = 0;
  std::uint64_t stored_size = 0;  // how many bytes there are

  Placed placed() const { return {header_offset, record.size}; }
  bool is_compressed() const { return method != 0; }  // its bytes are not the record's content
  bool is_deflated() const { return method == 8; }    // and what they are is known: deflate
};

// Everything before the record's first byte. `name` includes the prefix.
void append_local_header(std::string& out, std::string_view name, std::uint64_t header_offset,
                         std::uint64_t size);
// Its length, for a name of that length.
std::uint64_t local_header_size(std::size_t name_size, std::uint64_t header_offset,
                                std::uint64_t size);

// Everything between the record's last byte and the next local header; empty for an empty record.
void append_data_descriptor(std::string& out, const Placed& record, std::uint32_t crc32);
std::uint64_t data_descriptor_size(const Placed& record);

// The record's line in the central directory.
void append_central_header(std::string& out, std::string_view name, const Placed& record,
                           std::uint32_t crc32);
std::uint64_t central_header_size(std::size_t name_size, const Placed& record);

struct DirectoryExtent {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::uint64_t entries = 0;
};

// Everything after the central directory.
std::string end_of_directory(const DirectoryExtent& directory);

}  // namespace cairn::zip
