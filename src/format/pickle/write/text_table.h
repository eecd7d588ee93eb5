// A table of texts and their memo numbers, for a pickler. An entry costs no allocation of its own.
#pragma once

#include <bit>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/hash/seeded_hash.h"

namespace cairn::pickle {

class TextTable {
 public:
  // Returns nullptr if `text` was not added.
  const std::uint32_t* find(std::string_view text) {
    if (2 * (entries_.size() + 1) > slots_.size()) grow(slots_.empty() ? 64 : 4 * slots_.size());
    const Slot& slot = slots_[place_of(text)];
    return slot.entry == kFree ? nullptr : &entries_[slot.entry].number;
  }

  // Announces that so many more texts will be added.
  void reserve(std::size_t more) {
    const std::size_t count = entries_.size() + more;
    entries_.reserve(count);
    if (2 * count > slots_.size()) grow(std::bit_ceil(2 * count));
  }
  std::size_t size() const { return entries_.size(); }
  // Copies the bytes of the texts, except the first `first` ones, to `texts`, and refers to the
  // copies.
  void move_texts(std::deque<std::string>& texts, std::size_t first) {
    for (std::size_t i = first; i < entries_.size(); ++i) {
      entries_[i].text = texts.emplace_back(entries_[i].text);
    }
  }

  // Adds the text that the last find() did not find. Its bytes must outlive the table.
  void add(std::string_view text, std::uint32_t number) {
    slots_[last_place_] = {last_hash_, static_cast<std::uint32_t>(entries_.size())};
    entries_.push_back({text, number});
  }

 private:
  static constexpr std::uint32_t kFree = ~std::uint32_t{0};
  struct Slot {
    std::uint32_t hash = 0;
    std::uint32_t entry = kFree;
  };
  struct Entry {
    std::string_view text;
    std::uint32_t number;
  };

  // Returns the index of the text's slot, or of the free slot that it would get.
  std::size_t place_of(std::string_view text) {
    const std::size_t mask = slots_.size() - 1;
    last_hash_ = static_cast<std::uint32_t>(seeded_hash(text));
    last_place_ = last_hash_ & mask;
    while (slots_[last_place_].entry != kFree) {
      const Slot& slot = slots_[last_place_];
      if (slot.hash == last_hash_ && entries_[slot.entry].text == text) break;
      last_place_ = (last_place_ + 1) & mask;
    }
    return last_place_;
  }

  void grow(std::size_t slots) {
    const std::vector<Slot> old = std::move(slots_);
    slots_.assign(slots, Slot{});
    const std::size_t mask = slots_.size() - 1;
    for (const Slot& slot : old) {
      if (slot.entry == kFree) continue;
      std::size_t place = slot.hash & mask;
      while (slots_[place].entry != kFree) {
        place = (place + 1) & mask;
      }
      slots_[place] = slot;
    }
  }

  std::vector<Slot> slots_;  // their number is a power of two; at most half are used
  std::vector<Entry> entries_;
  std::size_t last_place_ = 0;  // result of the last place_of()
  std::uint32_t last_hash_ = 0;
};

}  // namespace cairn::pickle
