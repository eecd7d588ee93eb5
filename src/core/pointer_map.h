// Maps the addresses of living objects to values. An entry needs no allocation of its own, and a
// lookup searches one array. Not for keys that come from a file, which could be chosen to collide
// (core/hash/seeded_hash.h).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace cairn {

template <class T>
class PointerMap {
 public:
  PointerMap() = default;
  // Makes a map with room for `entries` entries.
  explicit PointerMap(std::size_t entries) { make_room(entries); }

  std::size_t size() const { return size_; }

  // Returns nullptr if the key is missing. The key may be nullptr. The result is valid until an
  // entry is added.
  const T* find(const void* key) const {
    if (slots_.empty()) return nullptr;
    const Slot& slot = slots_[place_of(number_of(key))];
    return slot.key == kFree ? nullptr : &slot.value;
  }
  T* find(const void* key) {
    return const_cast<T*>(std::as_const(*this).find(key));  // NOLINT: a slot of this map
  }

  // Returns the value of the key, or a new T{}, and whether the value is new. The pointer is valid
  // until an entry is added.
  std::pair<T*, bool> try_emplace(const void* key) {
    if (2 * (size_ + 1) > slots_.size()) make_room(2 * size_ + 8);
    Slot& slot = slots_[place_of(number_of(key))];
    const bool is_new = slot.key == kFree;
    if (is_new) {
      slot.key = number_of(key);
      ++size_;
    }
    return {&slot.value, is_new};
  }

  // Removes every value for which `goes(value)` is true. Takes time in proportion to all entries.
  template <class Goes>
  void erase_if(Goes goes) {
    std::vector<Slot> old = std::exchange(slots_, {});
    std::size_t stay = 0;
    for (Slot& slot : old) {
      if (slot.key != kFree && goes(slot.value)) slot = Slot();
      if (slot.key != kFree) ++stay;
    }
    size_ = 0;
    make_room(stay);
    take_over(old);
  }

 private:
  static constexpr std::uintptr_t kFree = ~std::uintptr_t{0};  // no object has this address
  struct Slot {
    std::uintptr_t key = kFree;
    T value = {};
  };

  static std::uintptr_t number_of(const void* key) {
    return reinterpret_cast<std::uintptr_t>(key);  // NOLINT
  }

  std::size_t first_place_of(std::uintptr_t key) const {
    constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15;
    return static_cast<std::size_t>((key * kGolden) >> 32) & (slots_.size() - 1);
  }

  // The index of the key's slot, or of the free slot that it would get.
  std::size_t place_of(std::uintptr_t key) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t place = first_place_of(key);
    while (slots_[place].key != kFree && slots_[place].key != key) {
      place = (place + 1) & mask;
    }
    return place;
  }

  void make_room(std::size_t entries) {
    const std::size_t slots = std::bit_ceil(2 * entries + 2);
    if (slots <= slots_.size()) return;
    std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(slots));
    size_ = 0;
    take_over(old);
  }

  void take_over(std::vector<Slot>& old) {
    for (Slot& slot : old) {
      if (slot.key == kFree) continue;
      slots_[place_of(slot.key)] = std::move(slot);
      ++size_;
    }
  }

  std::vector<Slot> slots_;  // their number is a power of two; at most half are used
  std::size_t size_ = 0;
};

}  // namespace cairn
