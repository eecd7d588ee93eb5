// Reads a file past the page cache, if much of the file is not cached yet.
//
// If a file is read through the page cache, the kernel copies every byte into pages that it has to
// find first. That takes as much processor time as the disk takes to read, and evicts what other
// programs have cached. docs/performance.md has the figures.
//
//  1. Open the file a second time with O_DIRECT, through its descriptor and not its name.
//  2. Look for a few pages of each range in the page cache (mincore). If most are there, read the
//     range from the cache, which is five times as fast as the disk.
//  3. Otherwise read the range into memory that is aligned as the disk requires, and copy it from
//     there. If the destination is aligned in its pages as the range is in the file, read directly
//     into the destination.
//  4. If something does not work (no O_DIRECT here, an error, a truncated file), leave the range to
//     the caller, which reads it through the page cache. That read reports what is wrong with which
//     byte.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <semaphore>
#include <span>
#include <vector>

#include "cairn/byte_source.h"

#include "io/file_descriptor.h"
#include "io/memory/page_memory.h"

namespace cairn {

// For one file, during one call of its source. Thread-safe.
class DirectReads {
 public:
  static constexpr std::uint64_t kMaxBytes = std::uint64_t{6} << 20;  // of one read()
  // Alignment of offsets, sizes and memory; no disk requires more.
  static constexpr std::uint64_t kAlignment = 4096;
  // How many reads are in the disk's queue at once, each with its own buffer.
  static constexpr std::ptrdiff_t kMaxAtOnce = 8;

  // `file` must outlive this object.
  DirectReads(const FileDescriptor& file, std::uint64_t size);
  ~DirectReads();
  DirectReads(const DirectReads&) = delete;
  DirectReads& operator=(const DirectReads&) = delete;

  // Step 2.
  bool is_cached(std::uint64_t begin, std::uint64_t end) const;

  // Step 3, for at most kMaxBytes: calls use() with the bytes of [begin, end), which are valid
  // only during the call. Returns false if it could not read them.
  bool read(std::uint64_t begin, std::uint64_t end, const std::function<void(ByteView)>& use);

  // Step 3 without a copy: fills `into`, and calls use() with the `behind` bytes that follow them
  // in the file, at most kMaxFollowingBytes. The following bytes come with the same system call, as
  // do the pages that `into` shares with other data. They are valid only during use(). Returns
  // false if `into` is not aligned as in the file, is too small, or could not be read; then its
  // content is undefined.
  bool read_in_place(std::uint64_t offset, std::span<std::byte> into, std::size_t behind,
                     const std::function<void(ByteView)>& use) const;
  static constexpr std::size_t kMaxFollowingBytes = std::size_t{64} << 10;

 private:
  bool read_into(std::span<std::byte> aligned, std::uint64_t begin, std::uint64_t end) const;
  PageMemory take_buffer();
  void give_back(PageMemory buffer);

  FileDescriptor direct_;
  std::uint64_t size_;
  void* pages_ = nullptr;  // a mapping that is asked about but never touched
  std::counting_semaphore<kMaxAtOnce> queue_{kMaxAtOnce};
  std::mutex mutex_;
  std::vector<PageMemory> buffers_;
};

}  // namespace cairn
