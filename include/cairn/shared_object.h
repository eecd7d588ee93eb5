// SharedObject: what a Value holds when it is more than a number.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>

#include "cairn/node_arena.h"

namespace cairn {

// A T that its copies share until one of them changes it. One pointer, with the count of its owners
// beside the T: a Value is 16 bytes for it, and a list of a million numbers 16 MB. It lies in the
// thread's NodeArena, where there is one.
// Reading from several threads is safe, as is copying; changing one copy needs it to itself.
// Without a T, as one is when it was moved from, it reads as a T{} that is nobody's.
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

  // The same for all that share one T; nullptr without a T.
  const void* identity() const { return held_; }

  // Whether there may be another that shares the T. False: this is the only one, and stays it while
  // nobody copies it.
  bool is_shared() const {
    return held_ != nullptr && held_->owners.load(std::memory_order_acquire) > 1;
  }

  // The T to be changed: a copy of it when others share it.
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
    static_assert(sizeof(Held) <= kMostNodeBytes && alignof(Held) <= alignof(std::max_align_t));
    static_assert(std::is_nothrow_move_constructible_v<T>);
    const bool is_in_arena = NodeArena::is_active();
    return new (take_node(sizeof(Held), is_in_arena)) Held(std::move(object), is_in_arena);
  }

  Held* held_ = nullptr;
};

}  // namespace cairn
