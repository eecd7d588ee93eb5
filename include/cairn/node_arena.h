// NodeArena: memory for the many small objects of a tree that is made in one go.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

namespace cairn {

// A checkpoint of 100,000 tensors is half a million small objects, made in one go, walked in that
// order, and let go of in one go. Cut one behind the other from blocks of 64 KiB they stay
// together, however full of holes the heap of a long run is: saving and loading such a state takes
// half of the processor time that it takes with objects from the heap (docs/performance.md).
//
// While one is in scope, what this thread makes of a tree lies so: what a Value shares, and
// Storages. cairn's readers and what gathers a state have one; programs that make large trees of
// their own may, too:
//
//   const cairn::NodeArena arena;
//   cairn::Dict tensors;
//   for (...) tensors.set(name, tensor);
//
// A block is given back when the last object in it is gone, on whatever thread: who keeps one
// object of a tree keeps up to 64 KiB for it, and a thread keeps the last block that it cut from.
// So it is for trees, not for Values that are made and kept one at a time.
class NodeArena {
 public:
  // Inside another one on the same thread it changes nothing. Costs nothing until a node is made.
  NodeArena() noexcept;
  // Nodes live on.
  ~NodeArena();
  NodeArena(const NodeArena&) = delete;
  NodeArena& operator=(const NodeArena&) = delete;

  // While one is in scope, inside of a NodeArena, what is made is from the heap: what outlives the
  // tree that is being made.
  class Pause {
   public:
    Pause() noexcept;
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    std::uint32_t depth_;
  };

  // Whether this thread has one in scope.
  static bool is_active() noexcept;
  // How many blocks there are in the process: for tests.
  static std::size_t blocks() noexcept;
};

// No node is larger.
inline constexpr std::size_t kMostNodeBytes = 1024;

// Memory of one object, aligned for any of alignof(std::max_align_t): from the heap, or in the
// arena of this thread. std::bad_alloc.
void* take_node(std::size_t bytes, bool is_in_arena);
// Of an object that was destroyed, on any thread; as it was taken.
void give_back_node(void* place, std::size_t bytes, bool is_in_arena) noexcept;

// For std::allocate_shared<T>(NodeAllocator<T>(), ...): to be made where the T is.
template <class T>
class NodeAllocator {
 public:
  using value_type = T;
  static_assert(alignof(T) <= alignof(std::max_align_t) && sizeof(T) <= kMostNodeBytes);

  NodeAllocator() noexcept : is_in_arena_(NodeArena::is_active()) {}
  template <class U>
  NodeAllocator(const NodeAllocator<U>& other) noexcept  // NOLINT(google-explicit-constructor)
      : is_in_arena_(other.is_in_arena()) {}

  // std::bad_array_new_length unless of one.
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

}  // namespace cairn
