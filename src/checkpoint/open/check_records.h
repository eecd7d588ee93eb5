// The checksums of a file's records as they are now, and their bytes where somebody wants them.
//
//  1. Records are cut into pieces, so that one record of 10 GB keeps every core busy, and the
//     pieces into batches, so that 10,000 small ones cost few reads.
//  2. Each batch is read with one call: what is wanted goes to its place, the rest to one that each
//     thread has for itself. What is in memory already is looked at there, or copied, and the
//     memory of a mapped file given back. So a file of any size is checked in a few MiB.
//  3. The CRC-32 of each piece is computed of what arrived, in its place: what was checked is what
//     the caller has.
//  4. The CRCs of a record's pieces are combined into that of the record.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "cairn/byte_source.h"
#include "cairn/format/torch_file.h"

namespace cairn {

// The CRC-32 of each record's bytes in `file`, in the order of `records`. `on_progress` (may be
// null) is told of each piece, from any thread. `places` is empty, or has for each record the place
// for its bytes: as long as it, or empty for none.
std::vector<std::uint32_t> record_crcs(const ByteSource& file,
                                       const std::vector<FileRecord>& records,
                                       const std::function<void(std::uint64_t)>& on_progress,
                                       std::span<const std::span<std::byte>> places = {});

}  // namespace cairn
