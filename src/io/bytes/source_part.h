// Parts of sources, and reading all of a source.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "cairn/byte_source.h"

namespace cairn {

// Returns a part of a source as a source of its own, `name` for messages: a file in a tar, a record
// that is itself a file. Its reader sees nothing beyond the part. Read errors name the other source
// and places in it. Throws UsageError if the part reaches outside the source.
std::shared_ptr<const ByteSource> part_of(std::shared_ptr<const ByteSource> source,
                                          std::uint64_t offset, std::uint64_t size,
                                          std::string name);

// Reads a whole range: a header, a pickle. The range is read into memory, so that a failing disk is
// an error of this call. A range of more than 64 MiB is a view(), because a sparse file may claim
// more than memory holds. Throws UsageError, StorageError.
SharedBytes read_bytes(const ByteSource& source, std::uint64_t offset, std::uint64_t size);
SharedBytes read_all(const ByteSource& source);

// Passes all bytes to `take` in order, 8 MiB at a time, to be written elsewhere. Bytes in memory
// are passed as views, others from one buffer. An exception of `take` ends the reading. Throws
// StorageError.
void read_in_blocks(const ByteSource& source, const std::function<void(ByteView block)>& take);

// Returns the first `size` bytes, or as many as there are.
SharedBytes read_start(const ByteSource& source, std::uint64_t size);

}  // namespace cairn
