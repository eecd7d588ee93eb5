// References to the objects of a pickle, of eight bytes each. Most objects of a pickle are so small
// that the reference itself holds them.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cairn/value.h"

#include "io/memory/memory_budget.h"

namespace cairn::pickle {

enum class NodeId : std::uint32_t {};

// None, a bool, a float, an int of 48 bits, or the number of a node of the Graph, which holds all
// other objects. Graph::integer() and Graph::real() return any number. The bits of a float are the
// float's own. Everything else has the bits of a NaN. A float whose own bits are those of such a
// NaN is a node.
class Ref {
 public:
  constexpr Ref() : Ref(kNoneTag, 0) {}
  Ref(None) : Ref() {}                                               // NOLINT
  Ref(bool v) : Ref(kBoolTag, v ? 1 : 0) {}                          // NOLINT
  Ref(NodeId id) : Ref(kNodeTag, static_cast<std::uint32_t>(id)) {}  // NOLINT
  static constexpr Ref nothing() { return {kNothingTag, 0}; }        // a free place
  static constexpr Ref left_out() { return {kLeftOutTag, 0}; }       // an object that was not made
  // Return nullopt for numbers that need a node.
  static std::optional<Ref> of(std::int64_t v) {
    constexpr std::int64_t kEnd = std::int64_t{1} << 47;
    if (v < -kEnd || v >= kEnd) return std::nullopt;
    return Ref(kIntTag, static_cast<std::uint64_t>(v) & kPayload);
  }
  static std::optional<Ref> of(double v) {
    Ref ref;
    ref.bits_ = std::bit_cast<std::uint64_t>(v);
    if (ref.tag() >= kNoneTag) return std::nullopt;
    return ref;
  }

  bool operator==(const Ref&) const = default;
  bool is_none() const { return tag() == kNoneTag; }
  bool is_nothing() const { return tag() == kNothingTag; }
  bool is_left_out() const { return tag() == kLeftOutTag; }
  std::optional<bool> boolean() const {
    if (tag() != kBoolTag) return std::nullopt;
    return (bits_ & 1) != 0;
  }
  std::optional<NodeId> node() const {
    if (tag() != kNodeTag) return std::nullopt;
    return static_cast<NodeId>(bits_ & kPayload);
  }
  std::optional<std::int64_t> small_int() const {
    if (tag() != kIntTag) return std::nullopt;
    return static_cast<std::int64_t>(bits_ << 16) >> 16;
  }
  std::optional<double> plain_float() const {
    if (tag() >= kNoneTag) return std::nullopt;
    return std::bit_cast<double>(bits_);
  }

 private:
  static constexpr std::uint64_t kPayload = (std::uint64_t{1} << 48) - 1;
  static constexpr std::uint64_t kNoneTag = 0xFFF9;
  static constexpr std::uint64_t kBoolTag = 0xFFFA;
  static constexpr std::uint64_t kIntTag = 0xFFFB;
  static constexpr std::uint64_t kNodeTag = 0xFFFC;
  static constexpr std::uint64_t kNothingTag = 0xFFFD;
  static constexpr std::uint64_t kLeftOutTag = 0xFFFE;

  constexpr Ref(std::uint64_t tag, std::uint64_t payload) : bits_(tag << 48 | payload) {}
  std::uint64_t tag() const { return bits_ >> 48; }

  std::uint64_t bits_;
};

// The memory of Refs, charged to a budget. A pickle makes a few small Refs for each tensor, and all
// of them end with the pickle. Small ones are cut from blocks and reused; larger ones are
// allocated.
class RefMemory {
 public:
  static constexpr std::size_t kMaxSmallRefs = 15;  // references

  // `budget` must outlive the RefMemory.
  explicit RefMemory(MemoryBudget& budget) : budget_(budget) {}
  RefMemory(const RefMemory&) = delete;
  RefMemory& operator=(const RefMemory&) = delete;

  // Capacities are odd, as the allocator's sizes are. take() throws UnsupportedError if the budget
  // is used up.
  Ref* take(std::size_t capacity);
  void give_back(Ref* refs, std::size_t capacity) noexcept;

 private:
  struct Free {
    Free* next;
  };

  MemoryBudget& budget_;
  std::array<Free*, kMaxSmallRefs / 2 + 1> free_ = {};  // indexed by half the capacity
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  std::byte* next_ = nullptr;  // in the last block
  std::size_t left_ = 0;       // bytes left in the last block
};

// A vector of references in 16 bytes. A single reference is stored in the vector itself. Several
// references use memory of a RefMemory, which must be the same one in all calls and outlive the
// vector. clear() gives all memory back; the destructor frees only large memory.
class Refs {
 public:
  Refs() = default;
  Refs(Refs&& other) noexcept
      : place_(std::exchange(other.place_, {})),
        size_(std::exchange(other.size_, 0)),
        capacity_(std::exchange(other.capacity_, 0)) {}
  Refs& operator=(Refs&& other) noexcept {
    Refs old(std::move(other));
    std::swap(place_, old.place_);
    std::swap(size_, old.size_);
    std::swap(capacity_, old.capacity_);
    return *this;
  }
  ~Refs() {
    if (capacity_ > RefMemory::kMaxSmallRefs) delete[] place_.outside;
  }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const Ref* begin() const { return capacity_ > 0 ? place_.outside : &place_.inside; }
  const Ref* end() const { return begin() + size_; }
  const Ref& operator[](std::size_t i) const { return begin()[i]; }
  Ref& operator[](std::size_t i) { return data()[i]; }
  const Ref& back() const { return begin()[size_ - 1]; }
  operator std::span<const Ref>() const { return {begin(), size_}; }  // NOLINT

  void push_back(Ref ref, RefMemory& memory) {
    if (size_ == room()) grow(1, memory);
    data()[size_++] = ref;
  }
  // `refs` must not be part of this vector.
  void append(std::span<const Ref> refs, RefMemory& memory);
  // New items are Ref::nothing().
  void resize(std::size_t size, RefMemory& memory);
  void shrink_to(std::size_t size) { size_ = static_cast<std::uint32_t>(size); }
  void clear(RefMemory& memory);

 private:
  union Place {
    Ref* outside = nullptr;
    Ref inside;
  };

  Ref* data() { return capacity_ > 0 ? place_.outside : &place_.inside; }
  std::uint32_t room() const { return capacity_ > 0 ? capacity_ : 1; }
  void grow(std::size_t more, RefMemory& memory);

  Place place_ = {};
  std::uint32_t size_ = 0;
  std::uint32_t capacity_ = 0;  // of place_.outside; 0: inside is used
};

}  // namespace cairn::pickle
