// What one rank has of the state that all ranks save together, and how it tells the others.
//
//  1. RankState: the rank's items by name: whole tensors, parts of larger ones, and objects.
//  2. describe(): the same without the bytes, in two texts. `names` says which items there are, and
//     is the same on all ranks of most jobs: whoever gathers needs each only once. `parts` says
//     which parts of them this rank has, some bytes for each.
//  3. Who gathers: parse_names(), RankParts. What arrives is bounded by its length.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cairn/value.h"

#include "checkpoint/sharded/packed.h"
#include "format/dcp/metadata/layout.h"

namespace cairn::sharded {

// PyTorch's own limit; a bit for each.
inline constexpr std::size_t kMostDims = 64;

using ItemPath = std::vector<std::variant<std::string, std::int64_t>>;

// What all ranks that have an item say of it.
struct ItemHeader {
  ItemPath path = {};
  std::string fqn = {};                       // the path, joined by dots
  std::optional<DType> dtype = std::nullopt;  // nullopt: an object
  bool requires_grad = false;
  Dims size = {};  // of the whole tensor
};

struct RankPlace {
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;
  // Of hybrid sharding: which of the copies of the state the rank has a part of. Parts that several
  // replicas have are written by the first.
  std::uint32_t replica = 0;
};

class RankState {
 public:
  struct Item {
    ItemHeader header = {};
    std::vector<Value> parts = {};  // of a tensor its parts, which may be several; else the object
  };

  // Flattens `tree` as dcp::flatten() does. UnsupportedError for what a folder cannot hold.
  // UsageError for a tensor whose part does not fit it.
  RankState(const RankPlace& place, const Value& tree);

  // A further part of a tensor that is there already, under `fqn`. UsageError when it is not.
  void add_part(std::string_view fqn, const TensorView& part);
  // What is this rank's alone, as item number `rank` of the list `list` ("rng"): its random state.
  void add_own(const std::string& list, const Value& value);

  const RankPlace& place() const { return place_; }
  const std::vector<Item>& items() const { return items_; }
  const std::vector<Item>& own_items() const { return own_; }

  // Calls use(item, part) for each part of each item, own ones last: they are numbered so.
  void for_each_part(auto&& use) const {
    for (const auto* items : {&items_, &own_}) {
      for (const Item& item : *items) {
        for (const Value& part : item.parts) {
          use(item, part);
        }
      }
    }
  }

 private:
  RankPlace place_;
  std::vector<Item> items_;
  std::vector<Item> own_;
};

struct Description {
  std::string names;
  std::string parts;
};

Description describe(const RankState& state);

// What `names` says. CorruptError; UnsupportedError of another version of cairn.
std::vector<ItemHeader> parse_names(std::string_view names);
// By which `parts` says which names it is about.
std::string digest_of_text(std::string_view text);

// The beginning of `parts`, which must outlive it.
struct RankParts {
  RankPlace place = {};
  std::string_view names_digest = {};
  std::string_view entries = {};  // of the items that the names tell, in order
  std::size_t count = 0;          // of parts in them
  std::vector<ItemHeader> own = {};
  std::string_view own_entries = {};
  std::size_t own_count = 0;

  // CorruptError; UnsupportedError of another version of cairn.
  static RankParts parse(std::string_view parts);
};

// Reads entries, one item after the other.
class EntryReader {
 public:
  explicit EntryReader(std::string_view entries) : reader_(entries, "what a rank has") {}

  // Calls use(mask, cuts) for each part that the rank has of the next item, which is `item`. The
  // bits of `mask` are the dimensions in which it is cut, and `cuts` offset and size in each of
  // these; of the others it has all. Objects have no dimensions. CorruptError for a part outside of
  // the tensor.
  void next(const ItemHeader& item, auto&& use) {
    std::array<std::int64_t, 2 * kMostDims> cuts;
    for (std::size_t count = reader_.count(); count > 0; --count) {
      const std::uint64_t mask = reader_.number();
      std::size_t numbers = 0;
      for (std::uint64_t rest = mask; rest != 0; rest &= rest - 1) {
        const auto d = static_cast<std::size_t>(std::countr_zero(rest));
        if (d >= item.size.size()) fail(item, "in more dimensions than it has");
        const auto whole = static_cast<std::uint64_t>(item.size[d]);
        const std::uint64_t offset = reader_.number();
        const std::uint64_t size = reader_.number();
        if (offset > whole || size > whole - offset) fail(item, "outside of it");
        cuts[numbers++] = static_cast<std::int64_t>(offset);
        cuts[numbers++] = static_cast<std::int64_t>(size);
      }
      use(mask, static_cast<const std::int64_t*>(cuts.data()));
    }
  }
  bool at_end() const { return reader_.remaining() == 0; }
  std::string_view rest() const { return {reader_.position(), reader_.remaining()}; }

 private:
  [[noreturn]] static void fail(const ItemHeader& item, const char* where);

  PackedReader reader_;
};

}  // namespace cairn::sharded
