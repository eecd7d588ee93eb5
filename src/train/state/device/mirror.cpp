#include "train/state/device/mirror.h"

#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <vector>

#include "io/memory/page_memory.h"

namespace cairn {
namespace {

constexpr std::size_t kPieceOfMirror = std::size_t{32} << 20;

}  // namespace

struct Mirror::Memory {
  // The pieces that a part holds.
  struct Hold {
    Memory* memory;
    std::size_t begin;
    std::size_t end;
  };

  explicit Memory(std::size_t bytes)
      : pages(bytes), users((bytes + kPieceOfMirror - 1) / kPieceOfMirror) {
    for (auto& count : users) {
      count = 1;  // The mirror's own hold.
    }
  }

  void add(const Hold& hold) {
    for (std::size_t i = hold.begin; i < hold.end; ++i) {
      ++users[i];
    }
    ++holders;
  }
  // Deletes this object if `hold` is the last one.
  void drop(const Hold& hold) noexcept {
    for (std::size_t i = hold.begin; i < hold.end; ++i) {
      if (users[i].fetch_sub(1) > 1) continue;
      const std::size_t at = i * kPieceOfMirror;
      pages.give_back(at, std::min(kPieceOfMirror, pages.size() - at));
    }
    if (holders.fetch_sub(1) == 1) delete this;
  }
  static void release(void* hold) {
    const Hold dropped = *static_cast<Hold*>(hold);  // A copy: this call may free the object.
    dropped.memory->drop(dropped);
  }

  PageMemory pages;
  std::vector<std::atomic<std::size_t>> users;  // Per piece.
  std::atomic<std::size_t> holders = 1;
  std::deque<Hold> holds;  // The deleter of a part gets its own element.
};

Mirror::Mirror(std::uint64_t bytes) : memory_(new Memory(bytes)) {}

Mirror::~Mirror() { memory_->drop({memory_, 0, memory_->users.size()}); }

std::span<std::byte> Mirror::all() const { return {memory_->pages.data(), memory_->pages.size()}; }

c10::Storage Mirror::part(std::uint64_t offset, std::size_t bytes) {
  const std::uint64_t end = (offset + bytes + kPieceOfMirror - 1) / kPieceOfMirror;
  Memory::Hold& hold = memory_->holds.emplace_back(
      Memory::Hold{.memory = memory_, .begin = offset / kPieceOfMirror, .end = end});
  memory_->add(hold);
  at::DataPtr data(memory_->pages.data() + offset, &hold, Memory::release, c10::kCPU);
  // In parentheses: newer versions take a signed number of bytes.
  return c10::Storage(c10::Storage::use_byte_size_t(), bytes, std::move(data),
                      c10::GetAllocator(c10::kCPU), /*resizable=*/true);
}

bool Mirror::is_part(const c10::Storage& storage) noexcept {
  return storage.data_ptr().get_deleter() == Memory::release;
}

}  // namespace cairn
