// W&B's file of records: leveldb's log format with other checksums.
//
//   file   = ":W&B" 0xBEE1 (uint16) version 0 (uint8), then records in blocks of 32 KiB
//   record = CRC-32 of type and data (uint32)  length (uint16)  type (uint8)  data
//
// A record that does not fit into the rest of its block is cut into parts: FIRST, MIDDLE, ...,
// LAST. A rest of less than 7 bytes is filled with zeros.
#pragma once

#include <cstdint>
#include <string>

#include "core/protobuf.h"
#include "io/files/append_file.h"

namespace cairn {

class WandbFile {
 public:
  // A new file. Throws StorageError.
  explicit WandbFile(std::string path);

  // When this returns, the kernel has the record.
  void append(const ProtoMessage& record);
  const std::string& path() const { return path_; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  std::string path_;
  AppendFile file_;
  std::uint64_t bytes_ = 0;
};

}  // namespace cairn
