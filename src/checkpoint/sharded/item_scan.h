// Goes through all items of a checkpoint of many ranks, one after the other, with the parts of each
// item on all ranks.
//
// In most jobs, most ranks name the same items. The parts of these ranks are read in step, one item
// at a time, straight from the descriptions that arrived: a thousand ranks with ten thousand
// tensors have ten million parts. For ranks with other names, the place of each item's entry is
// kept.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "checkpoint/sharded/tensor_parts.h"
#include "core/hash/seeded_hash.h"

namespace cairn::sharded {

// The items of all ranks, merged by name. Immutable.
class AllItems {
 public:
  // Arguments and errors as for GlobalPlan.
  AllItems(const std::vector<std::string>& names, std::vector<std::string> parts);

  const std::vector<ItemHeader>& headers() const { return headers_; }
  std::uint32_t world_size() const { return static_cast<std::uint32_t>(ranks_.size()); }
  // The number of parts of a rank, including those of its own items.
  std::size_t parts_of(std::uint32_t rank) const {
    return ranks_[rank].count + ranks_[rank].own_count;
  }
  const std::string& text_of(std::uint32_t rank) const { return texts_[rank]; }
  // The approximate memory that this object takes.
  std::uint64_t memory() const;

 private:
  friend class ItemScan;
  // The entry of an item from a rank whose names differ from the names of most ranks.
  struct Other {
    std::uint32_t rank;
    std::uint64_t number;  // of the first of its parts
    std::string_view entry;
  };
  using Indices = std::vector<std::uint32_t>;  // into headers_

  struct Table {
    std::string_view names;
    std::vector<std::uint32_t> ranks;
  };
  struct Entries {
    std::string_view text;
    std::uint64_t first;  // the number of the first part in it
    std::uint64_t count;
  };

  void sort_ranks(std::vector<std::string> texts);
  std::vector<Table> tables_of(const std::vector<std::string>& names) const;
  std::uint32_t add(ItemHeader header, std::uint32_t rank);
  Indices add_all(std::vector<ItemHeader> headers, std::uint32_t rank);
  void add_others(std::uint32_t rank, const Entries& entries, const Indices& items);
  void check_tree() const;

  std::vector<std::string> texts_;  // by rank
  std::vector<RankParts> ranks_;    // views of texts_
  std::vector<ItemHeader> headers_;
  std::vector<std::uint32_t> named_by_;  // by item: the first rank that has it
  std::vector<std::vector<Other>> others_;
  // the ranks that name the first `common_` items, in this order
  std::vector<std::uint32_t> in_step_;
  std::size_t common_ = 0;
  std::unordered_map<std::string, std::uint32_t, TextHash> by_name_;
};

// Goes through AllItems. Not thread-safe, but several may go through one AllItems.
class ItemScan {
 public:
  explicit ItemScan(const AllItems& all);

  // Goes to an item. Starts again from the beginning if the item is an earlier one. Throws
  // CorruptError, naming the rank, for a description that does not fit its names.
  void go_to(std::size_t item);
  // The parts of the item with the ranks that have them. For an object: the ranks that have it.
  TensorParts& parts() { return parts_; }

 private:
  struct Cursor {
    EntryReader reader;
    std::uint64_t number = 0;  // of the next part
  };

  void restart();
  void read_next();
  void read(std::uint32_t rank, EntryReader& reader, std::uint64_t& number);
  void check_ends() const;

  const AllItems& all_;
  std::vector<Cursor> cursors_;  // for each rank of all_.in_step_
  std::size_t next_ = 0;
  TensorParts parts_;
};

}  // namespace cairn::sharded
