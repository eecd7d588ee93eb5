#include "core/text/json.h"

#include <array>
#include <cstddef>
#include <functional>
#include <mutex>
#include <new>

#include "core/round_up.h"

namespace cairn {
namespace {

constexpr std::size_t kReserveBytes = std::size_t{1} << 20;

// The pages of the reserve take no memory until they are used. The reserve is large enough for a
// destructor with up to 64 Ki elements.
class JsonReserve {
 public:
  void* take(std::size_t bytes, std::size_t most) {
    const std::size_t room = round_up(bytes, alignof(std::max_align_t));
    const std::scoped_lock lock(mutex_);
    if (most < used_ || room > most - used_) throw std::bad_alloc();
    ++taken_;
    used_ += room;
    return memory_.data() + (used_ - room);
  }

  // Returns false if `place` is not in the reserve. The full size can be taken again only when
  // everything was given back.
  bool give_back(const void* place) noexcept {
    const auto* const at = static_cast<const std::byte*>(place);
    if (std::less<>()(at, memory_.data()) || !std::less<>()(at, memory_.data() + memory_.size())) {
      return false;
    }
    const std::scoped_lock lock(mutex_);
    if (--taken_ == 0) used_ = 0;
    return true;
  }

 private:
  std::mutex mutex_;
  std::size_t taken_ = 0;
  std::size_t used_ = 0;
  alignas(std::max_align_t) std::array<std::byte, kReserveBytes> memory_ = {};
};

constinit JsonReserve reserve;

}  // namespace

void* take_reserved(std::size_t bytes, Reserve most) {
  void* const memory = ::operator new(bytes, std::nothrow);
  if (memory != nullptr) return memory;
  return reserve.take(bytes, most == Reserve::kAll ? kReserveBytes : kReserveBytes / 2);
}

void give_back_reserved(void* memory) noexcept {
  if (!reserve.give_back(memory)) ::operator delete(memory);
}

}  // namespace cairn
