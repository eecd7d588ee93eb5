// The checksums of a file's records as they are now.
//
//  1. Records are cut into pieces, so that one record of 10 GB keeps every core busy.
//  2. The CRC-32 of each piece is computed, of a copy that every thread reads into one place; what
//     is
//     in memory already is looked at there, and the memory of a mapped file given back. So a file
//     of any size is checked in a few MiB.
//  3. The CRCs of a record's pieces are combined into that of the record.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "cairn/byte_source.h"
#include "cairn/format/torch_file.h"

namespace cairn {

// The CRC-32 of each record's bytes in `file`, in the order of `records`. `on_progress` (may be
// null) is told of each piece, from any thread.
std::vector<std::uint32_t> record_crcs(const ByteSource& file,
                                       const std::vector<FileRecord>& records,
                                       const std::function<void(std::uint64_t)>& on_progress);

}  // namespace cairn
