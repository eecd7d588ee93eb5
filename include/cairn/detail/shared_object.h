// SharedObject: what a Value holds when it is more than a number. Programs use Value.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>

#include "cairn/detail/node_arena.h"
#include "cairn/export.h"

namespace CAIRN_PUBLIC cairn {
namespace detail {

// A T that copies share until one of them changes it. A SharedObject is one pointer, and the number
// of owners is stored beside the T: so a Value has 16 bytes, and a list of a million numbers 16 MB.
// The T is in the thread's NodeArena, if there is one. Reading and copying are safe from several
// threads. Changing a copy needs the usual exclusion. A SharedObject that was moved from has no T,
// and reads as a T{} of its own.
template <class T>
class SharedObject {
 public:
  SharedObject() = default;
  explicit SharedObject(T object) : held_(make(std::move(object))) {}
  SharedObject(const SharedObject& other) noexcept : held_(other.held_) {
    if (held_ != nullptr) held_->owners.fetch_add(1, std::memory_order_relaxed);
  }
  SharedObject(SharedObject&& other) noexcept : held_(std::exchange(other.held_, nullptr)) {}
  SharedObject& operator=(SharedObject other) noexcept {
    std::swap(held_, other.held_);
    return *this;
  }
  ~SharedObject() {
    if (held_ != nullptr && held_->owners.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      const bool is_in_arena = held_->is_in_arena;
      held_->~Held();
      give_back_node(held_, sizeof(Held), is_in_arena);
    }
  }

  const T& operator*() const {
    static const T nothing{};
    return held_ == nullptr ? nothing : held_->object;
  }
  const T* operator->() const { return &**this; }

  // Equal for all copies that share one T. nullptr without a T.
  const void* identity() const { return held_; }

  // Whether another SharedObject may share the T. False: this is the only owner until it is copied.
  bool is_shared() const {
    return held_ != nullptr && held_->owners.load(std::memory_order_acquire) > 1;
  }

  // The T, to be changed. If others share it, this makes a copy first.
  T& own() {
    if (held_ == nullptr || is_shared()) {
      *this = SharedObject(T(**this));
    }
    return held_->object;
  }

 private:
  struct Held {
    Held(T o, bool in_arena) noexcept : is_in_arena(in_arena), object(std::move(o)) {}
    std::atomic<std::uint32_t> owners = 1;
    const bool is_in_arena;
    T object;
  };

  static Held* make(T object) {
    static_assert(sizeof(Held) <= kMaxNodeBytes && alignof(Held) <= alignof(std::max_align_t));
    static_assert(std::is_nothrow_move_constructible_v<T>);
    const bool is_in_arena = NodeArena::is_active();
    return new (take_node(sizeof(Held), is_in_arena)) Held(std::move(object), is_in_arena);
  }

  Held* held_ = nullptr;
};

}  // namespace detail
}  // namespace cairn
