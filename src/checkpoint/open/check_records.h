// The checksums of parts of a file as they are now, and its bytes where somebody wants them: the
// one way in which formats are verified, and in which what is loaded is verified as it passes.
//
//  1. What is to be checked is cut into pieces: where somebody's place for the bytes begins or
//     ends, and so that one record of 10 GB keeps every core busy; and the pieces into batches, so
//     that 10,000 small ones cost few reads.
//  2. Each batch is read with one call: what is wanted goes to its place, the rest to one that
//     each thread has for itself. What is in memory already is looked at there, or copied, and the
//     memory of a mapped file given back. So a file of any size is checked in a few MiB.
//  3. The checksum is computed of what arrived, in its place: what was checked is what the caller
//     has.
//  4. The CRCs of a record's pieces are combined into that of the record. An XXH3 takes them one
//     after the other; of several records, several at a time.
//
// What is wanted and in no record is read without a check.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "cairn/byte_source.h"
#include "cairn/format/torch_file.h"

#include "core/xxh3.h"

namespace cairn {

struct CheckedRead {
  const ByteSource& file;
  // Told of each piece, from any thread. May be null.
  std::function<void(std::uint64_t)> on_progress = nullptr;
  // In order and without overlaps: PendingReads::take(). All are filled.
  std::vector<ByteSource::Range> places = {};
};

// The CRC-32 of each record, in the order of `records`. StorageError.
std::vector<std::uint32_t> crcs_of(const CheckedRead& read, const std::vector<FileRecord>& records);

// Calls use(index, hash) for each that has bytes, from any thread, when they are in their places.
// StorageError. Memory: 40 MiB when there is one record.
void for_each_xxh3(const CheckedRead& read, const std::vector<FileRecord>& records,
                   const std::function<void(std::size_t index, const Xxh3& hash)>& use);

}  // namespace cairn
