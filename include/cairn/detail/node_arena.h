// NodeArena: memory for the many small objects of a tree that is made in one go. For cairn itself:
// its readers and the code that gathers a state use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

#include "cairn/export.h"

namespace CAIRN_PUBLIC cairn {
namespace detail {

// A checkpoint of 100,000 tensors is half a million small objects that are made, walked in that
// order and freed together. Cut one after another from blocks of 64 KiB, they stay together even in
// the fragmented heap of a long run. Saving and loading then take half of the processor time that
// they take with objects from the heap (bench/results/reading.md).
//
// While a NodeArena is in scope, the shared parts of the Values and the Storages that this thread
// makes are in its blocks.
//
// A block is freed when its last object is destroyed, on any thread. So one object that is kept may
// hold 64 KiB. A thread also keeps the block that it took memory from last. Use an arena for whole
// trees, not for Values that are made and kept one at a time.
class NodeArena {
 public:
  // A NodeArena inside another one of the same thread changes nothing. Costs nothing until a node
  // is made.
  NodeArena() noexcept;
  // Ends the scope. Nodes live on.
  ~NodeArena();
  NodeArena(const NodeArena&) = delete;
  NodeArena& operator=(const NodeArena&) = delete;

  // While a Pause is in scope inside a NodeArena, objects come from the heap. Use a Pause for
  // objects that outlive the tree.
  class Pause {
   public:
    Pause() noexcept;
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    std::uint32_t depth_;
  };

  // Whether this thread has a NodeArena in scope, and no Pause.
  static bool is_active() noexcept;
  // The number of blocks in the process, for tests.
  static std::size_t blocks() noexcept;
};

// The size of the largest node.
inline constexpr std::size_t kMaxNodeBytes = 1024;

// Takes memory for one object, aligned to alignof(std::max_align_t), from the heap or from the
// arena of this thread. Throws std::bad_alloc.
void* take_node(std::size_t bytes, bool is_in_arena);
// Frees the memory of an object that was destroyed, on any thread. `bytes` and `is_in_arena` are
// those of take_node().
void give_back_node(void* place, std::size_t bytes, bool is_in_arena) noexcept;

// For std::allocate_shared<T>(NodeAllocator<T>(), ...): puts the T into the arena, if one is
// active.
template <class T>
class NodeAllocator {
 public:
  using value_type = T;
  static_assert(alignof(T) <= alignof(std::max_align_t) && sizeof(T) <= kMaxNodeBytes);

  NodeAllocator() noexcept : is_in_arena_(NodeArena::is_active()) {}
  template <class U>
  NodeAllocator(const NodeAllocator<U>& other) noexcept  // NOLINT(google-explicit-constructor)
      : is_in_arena_(other.is_in_arena()) {}

  // Throws std::bad_array_new_length unless `count` is 1.
  T* allocate(std::size_t count) {
    if (count != 1) throw std::bad_array_new_length();
    return static_cast<T*>(take_node(sizeof(T), is_in_arena_));
  }
  void deallocate(T* place, std::size_t /*1*/) noexcept {
    give_back_node(place, sizeof(T), is_in_arena_);
  }

  bool is_in_arena() const noexcept { return is_in_arena_; }
  bool operator==(const NodeAllocator&) const = default;

 private:
  bool is_in_arena_;
};

}  // namespace detail
}  // namespace cairn
