// Bytes that need not fit into memory and that no other user may see: an unnamed file, which is
// gone with its last user. For data that must be expanded or assembled before it can be read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cairn/bytes.h"

#include "io/file_descriptor.h"

namespace cairn {

// The folder for temporary files: `folder`, or if it is empty $TMPDIR, or else /var/tmp.
std::string temporary_folder(const std::string& folder);
// As above, as a text for the message of a call that failed in this folder. The text says which
// variable chose the folder.
std::string shown_temporary_folder(const std::string& folder);

// Opens an unnamed file for reading and writing, in the folder that ScratchFile's constructor would
// use.
FileDescriptor open_scratch(const std::string& folder = {});

// A file that is written, then mapped. Not thread-safe.
class ScratchFile final : public ByteSink {
 public:
  // Creates the file in `folder`; if that is empty, in $TMPDIR or else /var/tmp. Throws
  // StorageError.
  explicit ScratchFile(const std::string& folder = {});

  // Appends through a buffer, so that small pieces cost little.
  void write(ByteView bytes) override;
  // Writes anywhere; gaps are zero. Not buffered.
  void write_at(std::uint64_t offset, ByteView bytes);
  std::uint64_t size() const { return size_; }
  const std::string& folder() const { return folder_; }
  // Free bytes in its file system.
  std::uint64_t available() const;
  // Maps all that was written. Call once, last.
  SharedBytes map();

 private:
  void flush();

  FileDescriptor fd_;
  std::string folder_;
  std::vector<std::byte> buffer_;  // appended bytes that are not in the file yet
  std::uint64_t size_ = 0;         // including the buffer
};

}  // namespace cairn
