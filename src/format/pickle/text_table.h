// Texts and their numbers, for a pickler: an entry costs no allocation of its own.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/seeded_hash.h"

namespace cairn::pickle {

class TextTable {
 public:
  // nullptr when `text` was not added.
  const std::uint32_t* find(std::string_view text) {
    if (2 * (entries_.size() + 1) > slots_.size()) grow();
    const Slot& slot = slots_[place_of(text)];
    return slot.entry == kFree ? nullptr : &entries_[slot.entry].number;
  }

  // Adds the text that find() just did not find. The bytes behind it must live as long as the
  // table.
  void add(std::string_view text, std::uint32_t number) {
    slots_[last_place_] = {last_hash_, static_cast<std::uint32_t>(entries_.size())};
    entries_.push_back({text, number});
  }

 private:
  static constexpr std::uint32_t kFree = ~std::uint32_t{0};
  struct Slot {
    std::uint32_t hash = 0;  // its upper half
    std::uint32_t entry = kFree;
  };
  struct Entry {
    std::string_view text;
    std::uint32_t number;
  };

  // Of the text's slot, or of the free one that it would have.
  std::size_t place_of(std::string_view text) {
    const std::uint64_t hash = seeded_hash(text);
    const std::size_t mask = slots_.size() - 1;
    last_hash_ = static_cast<std::uint32_t>(hash >> 32);
    last_place_ = hash & mask;
    while (slots_[last_place_].entry != kFree) {
      const Slot& slot = slots_[last_place_];
      if (slot.hash == last_hash_ && entries_[slot.entry].text == text) break;
      last_place_ = (last_place_ + 1) & mask;
    }
    return last_place_;
  }

  void grow() {
    slots_.assign(slots_.empty() ? 64 : 2 * slots_.size(), Slot{});
    for (std::uint32_t i = 0; i < entries_.size(); ++i) {
      const std::size_t place = place_of(entries_[i].text);
      slots_[place] = {last_hash_, i};
    }
  }

  std::vector<Slot> slots_;  // a power of two, at most half of them used
  std::vector<Entry> entries_;
  std::size_t last_place_ = 0;  // that place_of() came to
  std::uint32_t last_hash_ = 0;
};

}  // namespace cairn::pickle
