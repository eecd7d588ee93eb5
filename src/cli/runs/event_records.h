// The records of a TensorBoard event file, whose format loggers/tensorboard/event_file.h shows.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cairn/byte_source.h"

namespace cairn::cli {

// Reads the records of a source one after another. Reads some MiB at a time, and keeps no more.
class EventRecords {
 public:
  enum class Found : std::uint8_t {
    kRecord,   // data() has it
    kEnd,      // no whole record follows: the file ends, or the record is still being written
    kDamaged,  // a checksum is wrong, so it is unknown where the next record begins
  };

  // Begins at `offset`: 0, or what offset() was. The source must outlive this object.
  EventRecords(const ByteSource& source, std::uint64_t offset);

  // Throws what ByteSource::read() throws.
  Found next();
  // The data of the record that next() found, until the next call. Empty for a record of more than
  // 64 MiB: it holds an image or the like, and is neither read nor checked.
  std::string_view data() const { return data_; }
  // The end of the last record that next() found.
  std::uint64_t offset() const { return offset_; }

 private:
  // Bytes of the source, which must have them. They stay valid until the next call.
  std::string_view bytes(std::uint64_t offset, std::uint64_t size);

  const ByteSource& source_;
  std::uint64_t offset_ = 0;
  std::string window_;
  std::uint64_t window_begin_ = 0;
  std::string_view data_;
};

}  // namespace cairn::cli
