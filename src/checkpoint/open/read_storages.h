// The bytes of storages, brought into memory.
//
//  1. What is asked for becomes ranges of sources: storages that are one, and those that are put
//     together out of some. Of a byte that is wanted in several places one range is read, and
//     copied in the end.
//  2. Who checks a source takes its ranges, and fills them with the bytes that it checks.
//  3. finish() reads what nobody took, of each source with one call; and makes what has to be made
//     instead (decoded, its bytes swapped, gathered from very many places), which reads what was
//     checked once more.
//  4. Places that are no memory of the host's are given their bytes as they come: what is taken in
//     2 by who fills it, the rest by 3.
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

// For places that are no memory of the host's, as those of a device. Both are asked from several
// threads at once.
struct PutBytes {
  // Whether a place is such: its address, which no memory of the host has, and which nobody
  // touches.
  std::function<bool(const std::byte* place)> is_elsewhere = nullptr;
  // Brings bytes there: `into` is some of what was asked for. They are gone when it returns.
  std::function<void(std::span<std::byte> into, ByteView bytes)> put = nullptr;

  explicit operator bool() const { return put != nullptr; }
  bool takes(std::span<std::byte> place) const {
    return put != nullptr && !place.empty() && is_elsewhere(place.data());
  }
};

class PendingReads {
 public:
  // Step 1. StorageError, CorruptError of what says where bytes are. The places must outlive it.
  // `ended`, when there is one: nobody waits any more once it is set. `put`: for those
  // that are elsewhere.
  explicit PendingReads(const std::vector<StorageRead>& reads,
                        const std::atomic<bool>* ended = nullptr, PutBytes put = {});

  // Whether nothing was asked for.
  bool empty() const { return is_empty_; }
  // Whether something has to be made of bytes that step 2 does not see.
  bool has_made() const { return !made_.empty(); }
  // Step 2: the ranges of `source`, in order and without overlaps, once.
  std::vector<ByteSource::Range> take(const ByteSource& source);
  // By which the bytes of those come there that are no memory.
  const PutBytes& put() const { return put_; }
  // From any thread, now and then: CancelledError when nobody waits.
  void check_ended() const;
  // Step 3, once. `access` says how VerifiedSources are read. StorageError, CorruptError.
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
  // What they are where nothing can be copied.
  std::unordered_map<const ByteSource*, std::vector<ByteSource::Range>> again_;
};

// Fills every place with what a read of its storage gives. StorageError, CorruptError.
void read_storages(const std::vector<StorageRead>& reads);

}  // namespace cairn
