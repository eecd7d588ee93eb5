// A file of W&B's records, which its tools write for each run and `wandb sync` reads.
//
//   file   = ":W&B" 0xBEE1 (uint16) 0 (uint8)  record*
//   record = CRC-32 of type and data (uint32)  length (uint16)  type (uint8)  data
//
// The file has blocks of 32 KiB, and no record crosses the end of a block. A message that fits is
// one record, of type 1. A longer message is several records, of type 2 for the first, 4 for the
// last, and 3 between them. A block that has no room for a record's first seven bytes ends with
// zeros. A message is a `Record` of wandb_internal.proto.
#pragma once

#include <cstdint>
#include <string>

#include "core/protobuf.h"
#include "io/files/append_file.h"

namespace cairn::wandb {

struct RecordPosition {
  std::uint64_t bytes = 0;
  std::int64_t records = 0;
};

class RecordFile {
 public:
  // As the constructors of ContinuedFile. The second one also throws CorruptError unless the file
  // has so many records in so many bytes.
  explicit RecordFile(std::string path);
  RecordFile(std::string path, const RecordPosition& position);

  // Appends a Record that has one field: `field`, with the message `record`. When this returns, the
  // kernel has it. Throws StorageError.
  void write(int field, const ProtoMessage& record);
  const std::string& path() const { return file_.path(); }
  RecordPosition position() const { return {.bytes = file_.size(), .records = records_}; }

 private:
  ContinuedFile file_;
  std::int64_t records_ = 0;
};

}  // namespace cairn::wandb
