// A file as a ByteSource.
//
//  1. Opening fixes what it is, and with how many descriptors: io/files/file_handle.h.
//  2. read() brings the ranges in order, joins those that are near one another, cuts what is long,
//     and reads the pieces with preadv, on all cores when there is much; then what is not in the
//     page cache yet is read past it (io/files/file_direct.h).
//  3. Then it asks for size and time once more: bytes of a file that somebody wrote to meanwhile
//     are given to nobody.
//  4. view() maps the file, once, when it is first called under a GuardedReads:
//     io/memory/mapped_file.h says what becomes of pages that cannot be read, and of a file that is
//     written to then. Where nobody would be told of them it reads.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "cairn/byte_source.h"

#include "io/file_descriptor.h"

namespace cairn {

// `fd` is a regular file, open for reading; `path` for messages, and for check_mapped_reads().
// StorageError.
std::shared_ptr<const ByteSource> make_file_source(FileDescriptor fd, const std::string& path);

class ByteSource::LocalFile {
 public:
  virtual ~LocalFile() = default;
  // Brings the file into the page cache from its beginning on, as fast as the disk gives it and not
  // much further, until all of it is there or `ended` is set. Errors that stop it are thrown.
  virtual void bring_into_page_cache(const std::atomic<bool>& ended) const = 0;
};

// Whether it is one of those, or one with parts that were read ahead (io/bytes/windows.h).
inline bool is_file_source(const ByteSource& source) { return source.local_file() != nullptr; }

// LocalFile's. Only a hint: of what is no file, or cannot be read, nothing is said.
void bring_into_page_cache(const ByteSource& source, const std::atomic<bool>& ended) noexcept;

}  // namespace cairn
