// What readers do with sources besides reading ranges of them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "cairn/byte_source.h"

namespace cairn {

// A part of a source as a source of its own, `name` for messages: a file in a tar, a record that is
// itself a file. What reads it sees nothing beyond. Errors of reading name the other source and
// places in it. UsageError when it reaches outside.
std::shared_ptr<const ByteSource> part_of(std::shared_ptr<const ByteSource> source,
                                          std::uint64_t offset, std::uint64_t size,
                                          std::string name);

// A range, for what has to look at all of it: a header, a pickle. Read into memory, so that a disk
// that fails is an error of this call; beyond 64 MiB, where a file may claim more than it has (a
// sparse one does), view(). UsageError, StorageError.
SharedBytes read_bytes(const ByteSource& source, std::uint64_t offset, std::uint64_t size);
SharedBytes read_all(const ByteSource& source);

// Gives all of it to `take` in order, 8 MiB at a time, for what writes it somewhere else; as views
// where the bytes are in memory, otherwise from one buffer. What `take` throws ends it.
// StorageError.
void read_in_blocks(const ByteSource& source, const std::function<void(ByteView block)>& take);

// The first bytes: `size` of them, or as many as there are.
SharedBytes read_start(const ByteSource& source, std::uint64_t size);

}  // namespace cairn
