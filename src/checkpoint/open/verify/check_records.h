// Computes the checksums of a file's records as they are now, and delivers wanted bytes of the file
// to their places. All formats are verified in this way. Loaded bytes are verified in the same
// pass.
//
//  1. The records are cut into pieces at the offsets where a wanted range begins or ends. Very many
//     records are handled a few thousand at a time, in the file's order, so that the list of pieces
//     stays small. Two such groups of records of one file are read at a time, and share the
//     threads.
//  2. The source reads the pieces, in the order and in the portions that suit it, and shows each
//     portion as soon as it has been read: wanted bytes in their place, others in temporary memory.
//     So all cores check a file of any size with at most 64 MiB of memory.
//  3. The checksum is computed from the bytes in their place, so the caller has exactly the bytes
//     that were checked. Places outside host memory get the bytes at this moment.
//  4. The CRCs of a record's portions are combined into the CRC of the record. An XXH3 needs the
//     portions one after the other, so a record is read in order. Records that have less than a MiB
//     together are read with one call, and several such calls run at a time. A source that shows
//     bytes in order is asked for all records with one call.
//
// Wanted bytes outside of all records are read without a check.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "cairn/byte_source.h"
#include "cairn/format/torch_file.h"

#include "checkpoint/open/read_storages.h"
#include "core/hash/xxh3.h"

namespace cairn {

struct CheckedRead {
  const ByteSource& file;
  // Called with the size of each checked piece, from any thread. May be null.
  std::function<void(std::uint64_t)> on_progress = nullptr;
  // In order and without overlaps: PendingReads::take(). All of them are filled.
  std::vector<ByteSource::Range> places = {};
  // PendingReads::put(). Only crcs_of() uses it.
  PutBytes put = {};
};

// Returns the records of which some bytes are wanted.
std::vector<FileRecord> wanted(const std::vector<FileRecord>& records,
                               std::span<const ByteSource::Range> places);

// Returns the CRC-32 of each record, in the order of `records`. Throws StorageError.
std::vector<std::uint32_t> crcs_of(const CheckedRead& read, const std::vector<FileRecord>& records);

// Calls use(index, hash) for each record that has bytes, from any thread, after its bytes are in
// their places. Throws StorageError. Takes 80 MiB of memory if there is one record.
void for_each_xxh3(const CheckedRead& read, const std::vector<FileRecord>& records,
                   const std::function<void(std::size_t index, const Xxh3& hash)>& use);

}  // namespace cairn
