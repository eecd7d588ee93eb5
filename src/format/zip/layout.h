// PyTorch's layout of the zip of torch.save, byte for byte. Records are stored uncompressed, and
// each is aligned by padding in its local header. Sizes and CRC follow the data. Zip64 is used if a
// number needs it, and always at the end. Both the writer and the check of a file's layout use this
// code.
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

// The properties that determine the bytes around a record, besides its name and CRC.
struct Placed {
  std::uint64_t header_offset = 0;
  std::uint64_t size = 0;
};

// A record and its place. The name inside the zip is prefix + "/" + record.name.
struct Entry {
  FileRecord record;
  std::uint64_t header_offset = 0;
  // From the directory of a file that is read:
  std::uint16_t flags = 0;
  std::uint16_t method = 0;
  std::uint64_t stored_size = 0;  // its bytes in the file

  Placed placed() const { return {header_offset, record.size}; }
  bool is_compressed() const { return method != 0; }  // its bytes differ from the content
  bool is_deflated() const { return method == 8; }    // by the only known method
};

// Appends everything before the record's first byte. `name` includes the prefix.
void append_local_header(std::string& out, std::string_view name, std::uint64_t header_offset,
                         std::uint64_t size);
// The size of what append_local_header() appends, for a name of `name_size` bytes.
std::uint64_t local_header_size(std::size_t name_size, std::uint64_t header_offset,
                                std::uint64_t size);

// Appends everything between the record's last byte and the next local header: nothing for an empty
// record.
void append_data_descriptor(std::string& out, const Placed& record, std::uint32_t crc32);
std::uint64_t data_descriptor_size(const Placed& record);

// Appends the record's line in the central directory.
void append_central_header(std::string& out, std::string_view name, const Placed& record,
                           std::uint32_t crc32);
std::uint64_t central_header_size(std::size_t name_size, const Placed& record);

struct DirectoryExtent {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::uint64_t entries = 0;
};

// Returns everything after the central directory.
std::string end_of_directory(const DirectoryExtent& directory);

}  // namespace cairn::zip
