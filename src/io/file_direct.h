// Reading a file past the page cache: much of one that is not there yet.
//
// Through the page cache every byte is copied by the kernel into pages that it has to find first,
// which takes as much of the processors as the disk takes time, and pushes out what others have
// there. docs/performance.md has the figures.
//
//  1. The file is opened a second time, by its descriptor and not by its name, with O_DIRECT.
//  2. Of each range a few pages are looked for in the page cache (mincore). Where most are there,
//     reading them from it is five times as fast as the disk, and done.
//  3. Otherwise it is read into memory that is aligned as the disk wants it, and copied from there.
//  4. Whatever does not work (a file system without it, an error, a file that was cut off) is left
//     to reading through the page cache, which says what is wrong with which byte.
#pragma once

#include <cstdint>
#include <mutex>
#include <semaphore>
#include <span>
#include <vector>

#include "cairn/byte_source.h"

#include "io/file_descriptor.h"
#include "io/page_memory.h"

namespace cairn {

// Of one file, for the time of one call. Thread-safe.
class DirectReads {
 public:
  static constexpr std::uint64_t kMostBytes = std::uint64_t{4} << 20;  // of a range
  // So many reads are in the disk's queue at once, each with a buffer of its own.
  static constexpr std::ptrdiff_t kMostAtOnce = 8;

  // `file` must outlive it.
  DirectReads(const FileDescriptor& file, std::uint64_t size);
  ~DirectReads();
  DirectReads(const DirectReads&) = delete;
  DirectReads& operator=(const DirectReads&) = delete;

  // Fills `ranges`, which are in order and lie in [begin, end), kMostBytes at most. False when it
  // did not: then what stands in their places is undefined.
  bool read(std::uint64_t begin, std::uint64_t end, std::span<const ByteSource::Range> ranges);

 private:
  bool is_cached(std::uint64_t begin, std::uint64_t end) const;
  bool read_into(const PageMemory& buffer, std::uint64_t begin, std::uint64_t end) const;
  PageMemory take_buffer();
  void give_back(PageMemory buffer);

  FileDescriptor direct_;
  std::uint64_t size_;
  void* pages_ = nullptr;  // a mapping, which is asked about and never touched
  std::counting_semaphore<kMostAtOnce> queue_{kMostAtOnce};
  std::mutex mutex_;
  std::vector<PageMemory> buffers_;
};

}  // namespace cairn
