// A file of W&B's records, which its tools write for each run and `wandb sync` reads.
//
//   file   = ":W&B" 0xBEE1 (uint16) 0 (uint8)  record*
//   record = CRC-32 of type and data (uint32)  length (uint16)  type (uint8)  data
//
// The file has blocks of 32 KiB. No record crosses the end of a block: a longer message is several
// records (types 2, 3 and 4 for the first, the middle and the last; a whole message has type 1),
// and a block that has no room for a record's first seven bytes ends with zeros. A message is a
// `Record` of wandb_internal.proto.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/protobuf.h"
#include "io/file_descriptor.h"

namespace cairn::wandb {

struct RecordPosition {
  std::uint64_t bytes = 0;
  std::int64_t records = 0;
};

class RecordFile {
 public:
  // A new file, with missing folders. Throws StorageError, also if it exists.
  explicit RecordFile(std::string path);
  // Continues a file after `position`: what follows is cut off. Throws CorruptError if the file is
  // shorter, or another kind of file; it is unchanged then. Throws StorageError.
  RecordFile(std::string path, const RecordPosition& position);

  // Appends a Record that has one field: `field`, with the message `record`. When this returns, the
  // kernel has it. Throws StorageError.
  void write(int field, const ProtoMessage& record);
  const std::string& path() const { return path_; }
  const RecordPosition& position() const { return position_; }

 private:
  void append(std::string_view bytes);

  std::string path_;
  FileDescriptor file_;
  RecordPosition position_;
};

}  // namespace cairn::wandb
