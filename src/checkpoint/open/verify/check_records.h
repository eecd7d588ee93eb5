// The checksums of parts of a file as they are now, and its bytes where somebody wants them: the
// one way in which formats are verified, and in which what is loaded is verified as it passes.
//
//  1. What is to be checked is cut into pieces where somebody's place for the bytes begins or ends.
//     Of very many records some thousands at a time, by place, so that what is noted of each does
//     not add up; of a file two such reads at a time, which share the threads.
//  2. The source reads them, in the order and in the portions that suit it, and shows each as soon
//     as it is there: what is wanted in its place, the rest where it is for a moment. So a file of
//     any size is checked by all cores, in 64 MiB at most.
//  3. The checksum is computed of what arrived, in its place: what was checked is what the caller
//     has. Where the places are no memory of the host's, they get it then.
//  4. The CRCs of a record's portions are combined into that of the record. An XXH3 takes them one
//     after the other: a record is read in order, those that together are less than a MiB with one
//     call; of several such runs, several at a time. A source that shows bytes in order is asked
//     for all of them with one call.
//
// What is wanted and in no record is read without a check.
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
  // Told of each piece, from any thread. May be null.
  std::function<void(std::uint64_t)> on_progress = nullptr;
  // In order and without overlaps: PendingReads::take(). All are filled.
  std::vector<ByteSource::Range> places = {};
  // PendingReads::put(). Of crcs_of() alone.
  PutBytes put = {};
};

// Those of `records` of which some bytes are wanted.
std::vector<FileRecord> wanted(const std::vector<FileRecord>& records,
                               std::span<const ByteSource::Range> places);

// The CRC-32 of each record, in the order of `records`. StorageError.
std::vector<std::uint32_t> crcs_of(const CheckedRead& read, const std::vector<FileRecord>& records);

// Calls use(index, hash) for each that has bytes, from any thread, when they are in their places.
// StorageError. Memory: 80 MiB when there is one record.
void for_each_xxh3(const CheckedRead& read, const std::vector<FileRecord>& records,
                   const std::function<void(std::size_t index, const Xxh3& hash)>& use);

}  // namespace cairn
