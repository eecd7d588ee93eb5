// The parts that all ranks have of one tensor: which are the same, and whether they are all of it.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "checkpoint/sharded/rank_state.h"

namespace cairn::sharded {

// A part that a rank has: its number among those of the rank, and which replica the rank is of.
struct Holding {
  std::uint32_t rank = 0;
  std::uint32_t replica = 0;
  std::uint64_t number = 0;
};

// Layouts that were found good, so that a model's thousand layers are not a thousand searches.
using KnownLayouts = std::unordered_set<std::string>;

// Used again for one tensor after the other, so that it allocates little.
class TensorParts {
 public:
  // Of which item parts are added from now on; it must outlive them.
  void begin(const ItemHeader& item);
  // As EntryReader::next() gives them.
  void add(const Holding& holding, std::uint64_t mask, const std::int64_t* cuts) {
    holdings_.push_back(holding);
    boxes_.insert(boxes_.end(), whole_.begin(), whole_.end());
    std::int64_t* const sizes = boxes_.data() + boxes_.size() - item_->size.size();
    std::int64_t* const offsets = sizes - item_->size.size();
    for (; mask != 0; mask &= mask - 1) {
      const auto d = static_cast<std::size_t>(std::countr_zero(mask));
      offsets[d] = *cuts++;
      sizes[d] = *cuts++;
    }
  }

  const std::vector<Holding>& holdings() const { return holdings_; }
  // Of the part that holdings()[index] is.
  std::span<const std::int64_t> offsets_of(std::size_t index) const { return numbers(2 * index); }
  std::span<const std::int64_t> sizes_of(std::size_t index) const { return numbers(2 * index + 1); }
  std::uint64_t bytes_of(std::size_t index) const;
  bool is_whole(std::size_t index) const;  // the tensor, and no part of it

  // Brings equal parts together. Parts without elements are left out, unless nobody has others of a
  // tensor that has none itself: then the first. UsageError, naming the tensor and ranks, when two
  // overlap or together they are not all of it.
  void group(KnownLayouts& known);
  // Calls use(indices) for each group, of indices into holdings().
  void for_each_group(auto&& use) const {
    for (std::size_t begin = 0; begin < order_.size();) {
      std::size_t end = begin + 1;
      while (end < order_.size() && is_same(order_[begin], order_[end])) {
        ++end;
      }
      use(std::span(order_).subspan(begin, end - begin));
      begin = end;
    }
  }

 private:
  std::span<const std::int64_t> numbers(std::size_t index) const {
    const std::size_t dims = item_->size.size();
    return std::span(boxes_).subspan(dims * index, dims);
  }
  bool is_empty(std::size_t index) const;
  bool is_same(std::size_t a, std::size_t b) const;
  bool is_before(std::size_t a, std::size_t b) const;
  bool fills_in_slabs(std::span<const std::uint32_t> indices, std::size_t d) const;
  void check_boxes(KnownLayouts& known) const;
  std::string layout_digest() const;
  [[noreturn]] void explain() const;
  std::string text_of(std::size_t index) const;
  dcp::Box box_of(std::size_t index) const;

  const ItemHeader* item_ = nullptr;
  std::vector<std::int64_t> whole_;  // its box: offsets, then sizes
  std::vector<Holding> holdings_;
  std::vector<std::int64_t> boxes_;   // of each holding: offsets, then sizes, of all dimensions
  std::vector<std::uint32_t> order_;  // of group()
};

}  // namespace cairn::sharded
