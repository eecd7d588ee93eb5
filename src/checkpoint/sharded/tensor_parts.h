// The parts of one tensor on all ranks: finds equal parts, and whether all parts together fill the
// tensor.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "checkpoint/sharded/rank_state.h"

namespace cairn::sharded {

// A part that a rank has: its number among the rank's parts, and the rank's replica.
struct Holding {
  std::uint32_t rank = 0;
  std::uint32_t replica = 0;
  std::uint64_t number = 0;
};

// Digests of layouts that were found good, so that a thousand equal layers of a model are checked
// only once.
using KnownLayouts = std::unordered_set<std::string>;

// The same object is used for one tensor after the other, so that it allocates little.
class TensorParts {
 public:
  // Begins with another item, to which add() then adds parts. `item` must outlive its use here.
  void begin(const ItemHeader& item);
  // Adds a part; the arguments are those that EntryReader::next() gives.
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
  // For the part holdings()[index].
  std::span<const std::int64_t> offsets_of(std::size_t index) const { return numbers(2 * index); }
  std::span<const std::int64_t> sizes_of(std::size_t index) const { return numbers(2 * index + 1); }
  std::uint64_t bytes_of(std::size_t index) const;
  bool is_whole(std::size_t index) const;  // whether the part is the whole tensor

  // Groups equal parts. Parts without elements are left out. If the tensor itself has no elements,
  // only the first part stays. Throws UsageError, naming the tensor and ranks, if two parts overlap
  // or if all parts together do not fill the tensor.
  void group(KnownLayouts& known);
  // Calls use(indices) for each group, with indices into holdings().
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
  std::vector<std::int64_t> whole_;  // the box of the whole tensor: offsets, then sizes
  std::vector<Holding> holdings_;
  std::vector<std::int64_t> boxes_;   // for each holding: offsets, then sizes, of all dimensions
  std::vector<std::uint32_t> order_;  // the order that group() makes
};

}  // namespace cairn::sharded
