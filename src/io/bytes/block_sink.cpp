#include "io/bytes/block_sink.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

#include "core/hash/crc32.h"
#include "io/bytes/stream_copy.h"
#include "io/memory/page_memory.h"

namespace cairn {
namespace {

// Two blocks are being written, one is being filled, and one is spare in case either write takes
// long.
constexpr std::size_t kRingBlocks = 4;
constexpr std::size_t kMaxBlockBytes = std::size_t{4} << 20;
constexpr std::size_t kPiecesOfAFile = 16;
// Blocks of large files are multiples of what direct writes may need. Smaller blocks are only
// copied. The smallest are so small that tests can crash in the middle of a small file, too.
constexpr std::size_t kDirectGranule = 4096;
constexpr std::size_t kLeastBlockBytes = 64;
// Smaller blocks are filled through the cache: they are copied once more, while they are in it.
constexpr std::size_t kLeastPastCache = std::size_t{64} << 10;

}  // namespace

std::size_t block_bytes(std::uint64_t file_bytes) {
  const std::uint64_t wanted = file_bytes / kPiecesOfAFile;
  const std::size_t granule = wanted < kDirectGranule ? kLeastBlockBytes : kDirectGranule;
  const std::uint64_t even = wanted / granule * granule;
  return static_cast<std::size_t>(
      std::clamp<std::uint64_t>(even, kLeastBlockBytes, kMaxBlockBytes));
}

namespace {

// Keeps the memory of the largest finished ring (at most 16 MiB) for the next ring, as long as the
// process lives. Touching new pages costs more than copying into them: a tenth to a quarter of the
// processor time of saving 1 GiB.
class SpareMemory {
 public:
  PageMemory take(std::size_t bytes) {
    {
      const std::lock_guard lock(mutex_);
      if (spare_.size() >= bytes) return std::exchange(spare_, {});
    }
    return PageMemory(bytes);
  }

  void give_back(PageMemory memory) {
    const std::lock_guard lock(mutex_);
    if (memory.size() > spare_.size()) spare_ = std::move(memory);
  }

 private:
  std::mutex mutex_;
  PageMemory spare_;
};

SpareMemory& spare_memory() {
  // A ring may give its memory back while the process ends.
  static auto* const memory = new SpareMemory;
  return *memory;
}

}  // namespace

// The free blocks. Each block that is handed out keeps the ring alive.
class BlockSink::Ring {
 public:
  explicit Ring(std::size_t block_bytes) : memory_(spare_memory().take(kRingBlocks * block_bytes)) {
    for (std::size_t i = kRingBlocks; i-- > 0;) {
      free_.push_back(memory_.data() + i * block_bytes);
    }
  }
  ~Ring() { spare_memory().give_back(std::move(memory_)); }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  std::byte* take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !free_.empty(); });
    std::byte* block = free_.back();
    free_.pop_back();
    return block;
  }

  void give_back(std::byte* block) {
    {
      const std::lock_guard lock(mutex_);
      free_.push_back(block);
    }
    changed_.notify_one();
  }

 private:
  PageMemory memory_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::byte*> free_;
};

BlockSink::BlockSink(PositionalSink& to, std::size_t block_bytes)
    : to_(to), block_bytes_(block_bytes), ring_(std::make_shared<Ring>(block_bytes)) {}

BlockSink::~BlockSink() = default;

// A store may ask for pieces of any size, even one that is no multiple of a cache line.
bool BlockSink::goes_past_cache() const {
  return block_bytes_ >= kLeastPastCache && block_bytes_ % kCacheLine == 0;
}

template <class Write>
void BlockSink::write_by(ByteView bytes, const Write& write) {
  while (!bytes.empty()) {
    if (block_ == nullptr) {
      block_ = ring_->take();
      lines_.begin(block_);
    }
    const std::size_t n = std::min(bytes.size(), block_bytes_ - used_);
    write(bytes.first(n));
    used_ += n;
    bytes = bytes.subspan(n);
    if (used_ == block_bytes_) hand_over();
  }
}

void BlockSink::write(ByteView bytes) {
  write_by(bytes, [&](ByteView part) {
    if (goes_past_cache()) return lines_.write(part);
    std::copy(part.begin(), part.end(), block_ + used_);
  });
}

std::uint32_t BlockSink::write_with_crc32(ByteView bytes, std::uint32_t before) {
  std::uint32_t crc = before;
  write_by(bytes, [&](ByteView part) {
    crc = goes_past_cache() ? lines_.write_with_crc32(part, crc)
                            : crc32_and_copy(block_ + used_, part, crc);
  });
  return crc;
}

void BlockSink::finish() {
  if (used_ > 0) hand_over();
}

void BlockSink::hand_over() {
  if (goes_past_cache()) lines_.finish();  // another thread reads the block
  const std::shared_ptr<const void> owner(
      block_, [ring = ring_, block = block_](const void*) { ring->give_back(block); });
  const SharedBytes bytes{{block_, used_}, owner};
  const std::uint64_t begin = begin_;
  begin_ += used_;
  block_ = nullptr;
  used_ = 0;
  to_.write(begin, bytes);
}

}  // namespace cairn
