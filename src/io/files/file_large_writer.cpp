// Writing a large file past the page cache.
//
//  1. The caller's bytes are copied into the current one of three 8 MiB blocks. Bytes that do not
//     change, and are aligned for direct writes, are written where they lie, without a copy.
//  2. A full block goes to two threads, which write it at its offset with O_DIRECT while the caller
//     fills the next. Two writes in flight keep the disk busy.
//  3. The odd bytes at the end, fewer than a direct write can take, go through the page cache.
//  4. Where the file system refuses direct writes (tmpfs always, others for an unexpected
//     alignment), O_DIRECT is switched off and the same bytes are written again.
//
// The first error of a background write is reported by the next write(), sync() or close().
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "io/bytes/stream_copy.h"
#include "io/file_error.h"
#include "io/files/file_writer.h"
#include "io/memory/page_memory.h"

namespace cairn {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{8} << 20;
constexpr std::size_t kBlocks = 3;
constexpr std::size_t kThreads = 2;
constexpr std::size_t kDirectAlignment = 4096;

struct DirectBlock {
  std::byte* bytes = nullptr;
  std::size_t used = 0;
  std::uint64_t offset = 0;  // in the file
};

// Bytes on their way to the disk. They are in a block, or an owner keeps them alive.
struct QueuedWrite {
  ByteView bytes;
  std::uint64_t offset = 0;
  std::byte* block = nullptr;                   // the block becomes free when the bytes are written
  std::shared_ptr<const void> owner = nullptr;  // of bytes that are not in a block
};

bool is_aligned(const std::byte* at) {
  return reinterpret_cast<std::uintptr_t>(at) % kDirectAlignment == 0;
}

// Switches direct writes on or off. Returns false if the file system refuses.
bool set_direct(int fd, bool direct) {
  const int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && fcntl(fd, F_SETFL, direct ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}

int write_direct_or_not(int fd, ByteView bytes, std::uint64_t offset) {
  const int error = write_all_at(fd, bytes, offset);
  // A direct write that a limit or a full disk cut short at an odd byte also leads to EINVAL. Then
  // writing the rest through the page cache yields the error of the limit or of the disk.
  if (error != EINVAL || !set_direct(fd, false)) return error;
  return write_all_at(fd, bytes, offset);
}

// The writing threads, and their blocks.
class BlockWriters {
 public:
  explicit BlockWriters(int fd) : fd_(fd) {
    for (std::size_t i = 0; i < kBlocks; ++i) {
      free_.push_back({memory_.data() + i * kBlockBytes});
    }
    for (std::jthread& thread : threads_) {
      thread = std::jthread([this](const std::stop_token& stop) { run(stop); });
    }
  }

  // Waits for an empty block.
  DirectBlock take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !free_.empty(); });
    const DirectBlock block = free_.back();
    free_.pop_back();
    return {block.bytes};
  }

  void submit(QueuedWrite write) {
    {
      const std::lock_guard lock(mutex_);
      queued_.push_back(std::move(write));
      ++unfinished_;
    }
    changed_.notify_all();
  }

  // Waits until everything submitted is written.
  void wait_idle() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return unfinished_ == 0; });
  }

  // errno of the first write that failed, or 0.
  int error() const { return error_.load(); }

 private:
  void run(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (changed_.wait(lock, stop, [this] { return !queued_.empty(); })) {
      if (stop.stop_requested()) return;  // closed early: the queued writes are not wanted
      QueuedWrite write = std::move(queued_.front());
      queued_.pop_front();
      lock.unlock();
      if (error_.load() == 0) {
        int none = 0;
        const int error = write_direct_or_not(fd_, write.bytes, write.offset);
        if (error != 0) error_.compare_exchange_strong(none, error);
      }
      write.owner.reset();
      lock.lock();
      if (write.block != nullptr) free_.push_back({write.block});
      --unfinished_;
      changed_.notify_all();
    }
  }

  const int fd_;
  const PageMemory memory_{kBlocks * kBlockBytes};
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<DirectBlock> free_;
  std::deque<QueuedWrite> queued_;  // in file order
  std::size_t unfinished_ = 0;
  std::atomic<int> error_ = 0;
  // Last member: stopped and joined before the others are destroyed.
  std::array<std::jthread, kThreads> threads_;
};

class LargeFileWriter final : public WritableFile {
 public:
  LargeFileWriter(FileDescriptor fd, std::string path) : file_(std::move(fd), std::move(path)) {
    set_direct(file_.fd(), true);
    writers_ = std::make_unique<BlockWriters>(file_.fd());
    current_ = writers_->take();
  }

  void write(ByteView bytes) override {
    check();
    while (!bytes.empty()) {
      const std::size_t n = std::min(bytes.size(), kBlockBytes - current_.used);
      stream_copy(current_.bytes + current_.used, bytes.data(), n);
      current_.used += n;
      flushed_ = false;
      bytes = bytes.subspan(n);
      if (current_.used == kBlockBytes) next_block();
    }
  }

  void write_shared(const SharedBytes& bytes) override {
    check();
    ByteView left = bytes.view;
    if (current_.used == 0 && is_aligned(left.data())) {
      while (left.size() >= kDirectAlignment) {
        const ByteView piece =
            left.first(std::min(left.size() / kDirectAlignment * kDirectAlignment, kBlockBytes));
        writers_->submit({piece, current_.offset, nullptr, bytes.owner});
        current_.offset += piece.size();
        left = left.subspan(piece.size());
      }
    }
    write(left);
  }

  void sync() override {
    flush();
    file_.sync(current_.offset + current_.used);
  }

  void close() override {
    if (writers_ == nullptr) return;
    if (!file_.failed()) flush();
    writers_.reset();
    file_.close();
  }

 private:
  void check() { file_.check(writers_ == nullptr ? EBADF : writers_->error()); }

  void next_block() {
    const std::uint64_t end = current_.offset + current_.used;
    writers_->submit({{current_.bytes, current_.used}, current_.offset, current_.bytes});
    current_ = writers_->take();
    current_.offset = end;
    flushed_ = true;
    check();
  }

  // Brings everything into the file. The current block stays current, and is written again if more
  // bytes follow.
  void flush() {
    check();
    writers_->wait_idle();
    check();
    if (flushed_) return;
    const std::size_t even = current_.used / kDirectAlignment * kDirectAlignment;
    file_.check(write_direct_or_not(file_.fd(), {current_.bytes, even}, current_.offset));
    if (even != current_.used) {
      set_direct(file_.fd(), false);
      const ByteView odd{current_.bytes + even, current_.used - even};
      file_.check(write_all_at(file_.fd(), odd, current_.offset + even));
      set_direct(file_.fd(), true);
    }
    flushed_ = true;
  }

  FailingOnce file_;
  std::unique_ptr<BlockWriters> writers_;  // null once closed; uses file_'s descriptor
  DirectBlock current_;
  bool flushed_ = true;
};

}  // namespace

std::unique_ptr<WritableFile> make_large_file_writer(FileDescriptor fd, const std::string& path) {
  try {
    return std::make_unique<LargeFileWriter>(std::move(fd), path);
  } catch (const std::system_error& e) {
    throw_storage_error(e.code().value(), "cannot start the threads that write " + path);
  }
}

}  // namespace cairn
