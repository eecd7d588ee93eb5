// Reading a file past the page cache: much of one that is not there yet.
//
// Through the page cache every byte is copied by the kernel into pages that it has to find first,
// which takes as much of the processors as the disk takes time, and pushes out what others have
// there. docs/performance.md has the figures.
//
//  1. The file is opened a second time, by its descriptor and not by its name, with O_DIRECT.
//  2. Of each range a few pages are looked for in the page cache (mincore). Where most are there,
//     reading them from it is five times as fast as the disk, and done.
//  3. Otherwise it is read into memory that is aligned as the disk wants it, and copied from there;
//     or, if its place lies in its page as the bytes in the file, into that.
//  4. Whatever does not work (a file system without it, an error, a file that was cut off) is left
//     to reading through the page cache, which says what is wrong with which byte.
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

// Of one file, for the time of one call. Thread-safe.
class DirectReads {
 public:
  static constexpr std::uint64_t kMostBytes = std::uint64_t{6} << 20;  // of a read()
  // Of offsets, sizes and memory; no disk wants more.
  static constexpr std::uint64_t kAlignment = 4096;
  // So many reads are in the disk's queue at once, each with a buffer of its own.
  static constexpr std::ptrdiff_t kMostAtOnce = 8;

  // `file` must outlive it.
  DirectReads(const FileDescriptor& file, std::uint64_t size);
  ~DirectReads();
  DirectReads(const DirectReads&) = delete;
  DirectReads& operator=(const DirectReads&) = delete;

  // Step 2.
  bool is_cached(std::uint64_t begin, std::uint64_t end) const;

  // Step 3, of kMostBytes at most: calls use() with the bytes of [begin, end), which are gone when
  // it returns. False when it could not read them.
  bool read(std::uint64_t begin, std::uint64_t end, const std::function<void(ByteView)>& use);

  // Step 3 without a copy: fills `into`, and calls use() with the `behind` bytes that follow it in
  // the file, kMostBehind at most, which are gone when it returns: they come with the same call, as
  // do the pages that `into` shares with others. False when `into` does not lie as in the file, is
  // too small, or could not be read: then what stands there is undefined.
  bool read_in_place(std::uint64_t offset, std::span<std::byte> into, std::size_t behind,
                     const std::function<void(ByteView)>& use) const;
  static constexpr std::size_t kMostBehind = std::size_t{64} << 10;

 private:
  bool read_into(std::span<std::byte> aligned, std::uint64_t begin, std::uint64_t end) const;
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
