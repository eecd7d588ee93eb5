// All items of a checkpoint that many ranks have, one after the other, and who has which parts of
// each.
//
// Most ranks of most jobs name the same items. What they have of them is read in step, an item at a
// time, from their descriptions as they came: that of a thousand ranks and ten thousand tensors is
// ten million parts. What ranks name otherwise is looked up by where it stands.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "checkpoint/sharded/tensor_parts.h"
#include "core/hash/seeded_hash.h"

namespace cairn::sharded {

// What all ranks have, sorted out. Immutable.
class AllItems {
 public:
  // As GlobalPlan.
  AllItems(const std::vector<std::string>& names, std::vector<std::string> parts);

  const std::vector<ItemHeader>& headers() const { return headers_; }
  std::uint32_t world_size() const { return static_cast<std::uint32_t>(ranks_.size()); }
  // How many parts a rank has, own ones with them; what it sent.
  std::size_t parts_of(std::uint32_t rank) const {
    return ranks_[rank].count + ranks_[rank].own_count;
  }
  const std::string& text_of(std::uint32_t rank) const { return texts_[rank]; }
  // What it takes, about.
  std::uint64_t memory() const;

 private:
  friend class ItemScan;
  // Of a rank that does not name what most do: where its entries of an item are.
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
  std::vector<RankParts> ranks_;    // views of them
  std::vector<ItemHeader> headers_;
  std::vector<std::uint32_t> named_by_;  // of each: the first rank that has it
  std::vector<std::vector<Other>> others_;
  std::vector<std::uint32_t> in_step_;  // ranks that name the first `common_` items, in this order
  std::size_t common_ = 0;
  std::unordered_map<std::string, std::uint32_t, TextHash> by_name_;
};

// Goes through them. Not thread-safe; several may go through one AllItems.
class ItemScan {
 public:
  explicit ItemScan(const AllItems& all);

  // Goes to an item; from the beginning again when it lies behind. CorruptError, naming the rank,
  // for a description that does not fit its names.
  void go_to(std::size_t item);
  // Who has which parts of it. Of an object, who has it.
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
  std::vector<Cursor> cursors_;  // of all_.in_step_
  std::size_t next_ = 0;
  TensorParts parts_;
};

}  // namespace cairn::sharded
