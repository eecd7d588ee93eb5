// Blocks of 64 KiB at multiples of 64 KiB, so that a node's address says which block it is in.
//
//  1. A thread with a NodeArena cuts nodes from its block, one after another. When the block is
//     full, it takes the next block.
//  2. A block counts its living nodes. While a thread cuts from the block, this number is too high:
//     by kHeld minus the number of nodes that the thread has cut. So cutting needs no atomic
//     operation.
//  3. When the thread is done with the block, it corrects the number. The thread that brings the
//     number to zero frees the block.
//  4. The rest of a block is used by the thread's next NodeArena, so that many small trees do not
//     take a block each. If the block has no living nodes by then, it is used from its beginning.
#include "cairn/detail/node_arena.h"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>

#include "core/per_thread.h"
#include "core/round_up.h"

#if defined(__has_feature)  // clang
#if __has_feature(address_sanitizer)
#define CAIRN_MARKS_NODES 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define CAIRN_MARKS_NODES 1
#endif
#if defined(CAIRN_MARKS_NODES)
#include <sanitizer/asan_interface.h>
#endif

namespace cairn::detail {
namespace {

// Tell AddressSanitizer which memory of a block no node uses; AddressSanitizer cannot know that by
// itself.
void mark_free([[maybe_unused]] void* begin, [[maybe_unused]] std::size_t bytes) noexcept {
#if defined(CAIRN_MARKS_NODES)
  ASAN_POISON_MEMORY_REGION(begin, bytes);
#endif
}
void mark_used([[maybe_unused]] void* begin, [[maybe_unused]] std::size_t bytes) noexcept {
#if defined(CAIRN_MARKS_NODES)
  ASAN_UNPOISON_MEMORY_REGION(begin, bytes);
#endif
}

constexpr std::size_t kNodeBlockBytes = std::size_t{64} << 10;
constexpr std::uint32_t kHeld = std::uint32_t{1} << 31;  // more nodes than fit into a block
static_assert(kMaxNodeBytes * 16 <= kNodeBlockBytes);    // little of a block's end is wasted

std::atomic<std::size_t> block_count = 0;

struct alignas(std::max_align_t) NodeBlock {
  std::atomic<std::uint32_t> nodes = kHeld;
};

NodeBlock* new_block() {
  void* memory = std::aligned_alloc(kNodeBlockBytes, kNodeBlockBytes);
  if (memory == nullptr) throw std::bad_alloc();
  block_count.fetch_add(1, std::memory_order_relaxed);
  auto* block = new (memory) NodeBlock;
  mark_free(block + 1, kNodeBlockBytes - sizeof(NodeBlock));
  return block;
}

void release_nodes(NodeBlock* block, std::uint32_t nodes) noexcept {
  if (block->nodes.fetch_sub(nodes, std::memory_order_acq_rel) != nodes) return;
  mark_used(block, kNodeBlockBytes);
  block->~NodeBlock();
  std::free(block);  // NOLINT(cppcoreguidelines-no-malloc): as it was allocated
  block_count.fetch_sub(1, std::memory_order_relaxed);
}

std::size_t room_of(std::size_t bytes) { return round_up(bytes, alignof(std::max_align_t)); }

// The block from which a thread cuts nodes. A Cutter has no destructor, so that it can be used
// until the thread's end: a static object's destructor may still load something.
class Cutter {
 public:
  void* take(std::size_t node_bytes) {
    const std::size_t bytes = room_of(node_bytes);
    if (block_ == nullptr || bytes > kNodeBlockBytes - used_) next_block();
    std::byte* place = reinterpret_cast<std::byte*>(block_) + used_;
    used_ += bytes;
    ++cut_;
    mark_used(place, bytes);
    return place;
  }

  void finish() noexcept {
    if (block_ != nullptr) release_nodes(std::exchange(block_, nullptr), kHeld - cut_);
    begin();
  }
  // Starts the block again from its beginning, if it has no nodes.
  void rewind() noexcept {
    if (block_ == nullptr || block_->nodes.load(std::memory_order_acquire) != kHeld - cut_) return;
    block_->nodes.store(kHeld, std::memory_order_relaxed);
    begin();
  }

 private:
  void begin() noexcept {
    used_ = sizeof(NodeBlock);
    cut_ = 0;
  }
  void next_block();

  NodeBlock* block_ = nullptr;
  std::size_t used_ = sizeof(NodeBlock);
  std::uint32_t cut_ = 0;  // from this block
};

constinit thread_local Cutter cutter;
constinit thread_local std::uint32_t depth = 0;
constinit thread_local bool is_ending = false;  // the thread is ending: keep no blocks

// Gives the last block back when the thread ends.
struct LastBlock {
  LastBlock() = default;
  LastBlock(const LastBlock&) = delete;
  LastBlock& operator=(const LastBlock&) = delete;
  ~LastBlock() {
    is_ending = true;
    cutter.finish();
  }
};

void Cutter::next_block() {
  static const PerThread<LastBlock> last_blocks;
  last_blocks.here();
  finish();
  block_ = new_block();
}

}  // namespace

NodeArena::NodeArena() noexcept {
  if (++depth == 1) cutter.rewind();
}

NodeArena::~NodeArena() {
  if (--depth == 0 && is_ending) cutter.finish();
}

NodeArena::Pause::Pause() noexcept : depth_(std::exchange(depth, 0)) {}

NodeArena::Pause::~Pause() { depth = depth_; }

bool NodeArena::is_active() noexcept { return depth > 0; }

std::size_t NodeArena::blocks() noexcept { return block_count; }

void* take_node(std::size_t bytes, bool is_in_arena) {
  return is_in_arena ? cutter.take(bytes) : ::operator new(bytes);
}

void give_back_node(void* place, std::size_t bytes, bool is_in_arena) noexcept {
  if (!is_in_arena) return ::operator delete(place);
  mark_free(place, room_of(bytes));
  const auto address = reinterpret_cast<std::uintptr_t>(place);
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  release_nodes(reinterpret_cast<NodeBlock*>(address / kNodeBlockBytes * kNodeBlockBytes), 1);
}

}  // namespace cairn::detail
