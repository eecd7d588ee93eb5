// Reads the bytes of storages into memory.
//
//  1. The requested storages become ranges of sources. A storage is one range, or is put together
//     from several. If several destinations want the same byte, the byte is read once and copied at
//     the end.
//  2. The code that checks a source takes its ranges, and fills them with the bytes that it checks.
//  3. finish() reads the ranges that were not taken, with one call for each source. finish() also
//     makes the storages that are no ranges (decoded, byte-swapped, or put together from very many
//     ranges). To make such a storage, checked bytes are read once more.
//  4. Destinations outside host memory get their bytes as soon as the bytes are read. The code of
//     step 2 copies the bytes of the ranges that it took, and step 3 copies the others.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

#include "cairn/checkpoint/checkpoint.h"

#include "checkpoint/open/source.h"

namespace cairn {

// Copies bytes to places outside host memory, such as a device's. Several threads may call the two
// functions at once.
struct PutBytes {
  // Whether `place` is outside host memory. Such an address is never dereferenced.
  std::function<bool(const std::byte* place)> is_elsewhere = nullptr;
  // Copies bytes to `into`, which is part of a requested place. `bytes` are invalid after put() has
  // returned.
  std::function<void(std::span<std::byte> into, ByteView bytes)> put = nullptr;

  explicit operator bool() const { return put != nullptr; }
  bool takes(std::span<std::byte> place) const {
    return put != nullptr && !place.empty() && is_elsewhere(place.data());
  }
};

class PendingReads {
 public:
  // Step 1. The places must outlive this object. Throws StorageError or CorruptError if the places
  // of the bytes in the sources cannot be found. `ended` becomes true when the result is not needed
  // any more; may be null. `put`: for the places outside host memory.
  explicit PendingReads(const std::vector<StorageRead>& reads,
                        const std::atomic<bool>* ended = nullptr, PutBytes put = {});

  // Whether nothing was requested.
  bool empty() const { return is_empty_; }
  // Whether some storage is no range, so that step 3 has to make it.
  bool has_storages_to_make() const { return !made_.empty(); }
  // Step 2: takes the ranges of `source`, in order and without overlaps. A later call returns none.
  std::vector<ByteSource::Range> take(const ByteSource& source);
  // The functions for places outside host memory.
  const PutBytes& put() const { return put_; }
  // Throws CancelledError if the result is not needed any more. Call it now and then; thread-safe.
  void check_ended() const;
  // Step 3; call it once. `access` says how VerifiedSources are read. Throws StorageError and
  // CorruptError.
  void finish(Access access = Access::kVerified);

 private:
  struct Copy {
    std::span<const std::byte> from;
    std::byte* to;
  };

  void add(const ByteSource& source, std::vector<ByteSource::Range>& ranges);
  void put_ranges(const ByteSource& source, const std::vector<ByteSource::Range>& ranges) const;
  void make(const StorageRead& read) const;

  bool is_empty_;
  const std::atomic<bool>* ended_;
  const PutBytes put_;
  std::unordered_map<const ByteSource*, std::vector<ByteSource::Range>> by_source_;
  std::vector<StorageRead> made_;
  std::vector<Copy> copies_;
  // Used in place of copies_ if one of the two places is outside host memory: these ranges are read
  // again.
  std::unordered_map<const ByteSource*, std::vector<ByteSource::Range>> read_again_;
};

// Fills every place with the bytes of its storage. Throws StorageError and CorruptError.
void read_storages(const std::vector<StorageRead>& reads);

}  // namespace cairn
