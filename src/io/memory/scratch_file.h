// Bytes that need not fit into memory and that nobody else is to see: an unnamed file, gone with
// its last user. For what must be expanded or put together before it can be read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cairn/bytes.h"

#include "io/file_descriptor.h"

namespace cairn {

// Where temporary files are: `folder`, or $TMPDIR when that is empty, or else /var/tmp.
std::string temporary_folder(const std::string& folder);
// The same for the message of a call that failed there. It says which variable chose the place.
std::string shown_temporary_folder(const std::string& folder);

// The file alone, for reading and writing. As ScratchFile's constructor.
FileDescriptor open_scratch(const std::string& folder = {});

// Written, then mapped. Not thread-safe.
class ScratchFile final : public ByteSink {
 public:
  // In `folder`; when that is empty, in $TMPDIR or else /var/tmp. StorageError.
  explicit ScratchFile(const std::string& folder = {});

  // Appends; through a buffer, so that small pieces cost little.
  void write(ByteView bytes) override;
  // Anywhere; what lies between is zero. Not buffered.
  void write_at(std::uint64_t offset, ByteView bytes);
  std::uint64_t size() const { return size_; }
  const std::string& folder() const { return folder_; }
  // Bytes that are free where it lies.
  std::uint64_t available() const;
  // All that was written. Call once, last.
  SharedBytes map();

 private:
  void flush();

  FileDescriptor fd_;
  std::string folder_;
  std::vector<std::byte> buffer_;  // what was appended and is not in the file yet
  std::uint64_t size_ = 0;         // with the buffer
};

}  // namespace cairn
