#include "io/files/file_direct.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "core/round_up.h"

namespace cairn {
namespace {

constexpr std::uint64_t kAlignment = DirectReads::kAlignment;

std::uint64_t aligned_down(std::uint64_t offset) { return offset / kAlignment * kAlignment; }

// Memory that a disk may write into; null if there is no memory.
class SharedPages {
 public:
  explicit SharedPages(std::size_t bytes)
      : pages_(::operator new (bytes, std::align_val_t{kAlignment}, std::nothrow)) {}
  ~SharedPages() { ::operator delete (pages_, std::align_val_t{kAlignment}); }
  SharedPages(const SharedPages&) = delete;
  SharedPages& operator=(const SharedPages&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(pages_); }

 private:
  void* pages_;
};

FileDescriptor open_direct(const FileDescriptor& file) {
  const std::string path = "/proc/self/fd/" + std::to_string(file.get());
  return FileDescriptor(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_DIRECT));
}

}  // namespace

DirectReads::DirectReads(const FileDescriptor& file, std::uint64_t size)
    : direct_(open_direct(file)), size_(size) {
  buffers_.reserve(kMaxAtOnce);  // so that returning a buffer cannot fail
  if (!direct_.is_open()) return;
  void* const pages = mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.get(), 0);
  if (pages == MAP_FAILED) {
    direct_.close();
  } else {
    pages_ = pages;
  }
}

DirectReads::~DirectReads() {
  if (pages_ != nullptr) munmap(pages_, size_);
}

bool DirectReads::read(std::uint64_t begin, std::uint64_t end,
                       const std::function<void(ByteView)>& use) {
  if (pages_ == nullptr || end - begin > kMaxBytes) return false;
  const std::uint64_t from = aligned_down(begin);
  PageMemory buffer = take_buffer();
  const bool is_read = read_into({buffer.data(), buffer.size()}, from, end);
  std::exception_ptr error;
  try {
    if (is_read) use({buffer.data() + (begin - from), static_cast<std::size_t>(end - begin)});
  } catch (...) {
    error = std::current_exception();
  }
  give_back(std::move(buffer));
  if (error) std::rethrow_exception(error);
  return is_read;
}

bool DirectReads::read_in_place(std::uint64_t offset, std::span<std::byte> into, std::size_t behind,
                                const std::function<void(ByteView)>& use) const {
  const auto address = reinterpret_cast<std::uintptr_t>(into.data());
  const std::uint64_t end = offset + into.size();
  const std::uint64_t from = round_up(offset, kAlignment);
  const std::uint64_t to = aligned_down(end);
  const bool lies_so = address % kAlignment == offset % kAlignment && from < to;
  if (pages_ == nullptr || !lies_so || behind > kMaxFollowingBytes) return false;
  const std::size_t head = from - offset;
  const std::size_t tail = end - to;
  const std::size_t after = round_up(tail + behind, kAlignment);
  const SharedPages shared(kAlignment + after);
  if (shared.data() == nullptr) return false;
  std::byte* const rest = shared.data() + kAlignment;
  std::array<iovec, 3> places = {};
  std::size_t count = 0;
  if (head > 0) places[count++] = {shared.data(), kAlignment};
  places[count++] = {into.data() + head, static_cast<std::size_t>(to - from)};
  if (after > 0) places[count++] = {rest, after};
  const std::uint64_t begin = aligned_down(offset);
  ssize_t done = 0;
  do {
    done = preadv(direct_.get(), places.data(), static_cast<int>(count), static_cast<off_t>(begin));
  } while (done < 0 && errno == EINTR);
  // The file may end within the last page.
  if (done < 0 || static_cast<std::uint64_t>(done) < end + behind - begin) return false;
  std::copy_n(rest - head, head, into.begin());
  std::copy_n(rest, tail, into.last(tail).begin());
  use({rest + tail, behind});
  return true;
}

// Asks about 16 pages. Asking about all pages would take a tenth of the time of reading them.
bool DirectReads::is_cached(std::uint64_t begin, std::uint64_t end) const {
  if (pages_ == nullptr) return true;
  constexpr std::uint64_t kSamples = 16;
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  std::uint64_t cached = 0;
  for (std::uint64_t i = 0; i < kSamples; ++i) {
    const std::uint64_t at = (begin + (end - begin) * i / kSamples) / page * page;
    unsigned char is_there = 0;
    if (mincore(static_cast<std::byte*>(pages_) + at, page, &is_there) != 0) return true;
    cached += is_there & 1U;
  }
  return 2 * cached > kSamples;
}

// Reads from the aligned `from` at least to `end`, or to the end of the file.
bool DirectReads::read_into(std::span<std::byte> aligned, std::uint64_t from,
                            std::uint64_t end) const {
  const std::uint64_t wanted = end - from;
  std::uint64_t done = 0;
  if (round_up(wanted, kAlignment) > aligned.size()) return false;
  while (done < wanted) {
    const std::uint64_t rest = round_up(wanted - done, kAlignment);
    const ssize_t count =
        pread(direct_.get(), aligned.data() + done, rest, static_cast<off_t>(from + done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    done += static_cast<std::uint64_t>(count);
    if (done < wanted && done % kAlignment != 0) return false;
  }
  return true;
}

// Returns an empty buffer, into which no read fits, if there is no memory.
PageMemory DirectReads::take_buffer() {
  constexpr std::size_t kBufferBytes = kMaxBytes + 2 * kAlignment;
  queue_.acquire();
  {
    const std::lock_guard lock(mutex_);
    if (!buffers_.empty()) {
      PageMemory buffer = std::move(buffers_.back());
      buffers_.pop_back();
      return buffer;
    }
  }
  try {
    return PageMemory(kBufferBytes);
  } catch (const std::bad_alloc&) {
    return {};
  }
}

void DirectReads::give_back(PageMemory buffer) {
  {
    const std::lock_guard lock(mutex_);
    if (buffer.size() > 0) buffers_.push_back(std::move(buffer));
  }
  queue_.release();
}

}  // namespace cairn
