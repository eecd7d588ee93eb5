// A file as a ByteSource.
//
//  1. Opening fixes what the file is, and how many descriptors it takes: io/files/file_handle.h.
//  2. read() sorts the ranges, joins those that are near one another, cuts long ones, and reads the
//     pieces with preadv, on all cores when there is much. Large reads of bytes that are not in the
//     page cache go past it (io/files/file_direct.h).
//  3. Then it compares size and time once more. Bytes of a file that was written to meanwhile are
//     not given out.
//  4. view() maps the file, once: in its first call under a GuardedReads. io/memory/mapped_file.h
//     says what happens to pages that cannot be read, and to a file that is written to later.
//     Without a GuardedReads nothing would report such pages, so view() reads.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "cairn/byte_source.h"

#include "io/file_descriptor.h"

namespace cairn {

// `fd` is a regular file, open for reading. `path` is for messages and for check_mapped_reads().
// Throws StorageError.
std::shared_ptr<const ByteSource> make_file_source(FileDescriptor fd, const std::string& path);

class ByteSource::LocalFile {
 public:
  virtual ~LocalFile() = default;
  // Brings the file into the page cache from its beginning on, as fast as the disk delivers it and
  // not much further ahead. Ends when all of the file is there or `ended` is set. Throws the error
  // that stops it.
  virtual void bring_into_page_cache(const std::atomic<bool>& ended) const = 0;
  // The whole file as map_privately() maps it. Throws StorageError, UnreadableError if the file is
  // not what it was.
  virtual SharedBytes map_privately() const = 0;
};

// Whether `source` is a file source, or a Windows over one (io/bytes/windows.h).
inline bool is_file_source(const ByteSource& source) { return source.local_file() != nullptr; }

// As LocalFile::bring_into_page_cache(), but only a hint: does nothing for other sources, and
// ignores errors.
void bring_into_page_cache(const ByteSource& source, const std::atomic<bool>& ended) noexcept;

}  // namespace cairn
