// One rank's part of a state that all ranks save together, and its description for the other ranks.
//
//  1. RankState holds the rank's items by name: whole tensors, parts of larger tensors, and
//     objects.
//  2. describe() describes the items without their bytes, in two texts. `names` lists the items. In
//     most jobs this text is the same on all ranks, so the gathering rank needs each different text
//     only once. `parts` says which parts of the items this rank has, with a few bytes for each
//     part.
//  3. The gathering rank uses parse_names() and RankParts. The length of the received texts bounds
//     the number of items and parts that they can describe.
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

// PyTorch's own limit for the dimensions of a tensor; a mask (EntryReader) has a bit for each.
inline constexpr std::size_t kMaxDims = 64;

using ItemPath = std::vector<std::variant<std::string, std::int64_t>>;

// The facts about an item that are the same on all ranks that have it.
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
  // For hybrid sharding: the copy of the state of which the rank has a part. If several replicas
  // have a part, the first one writes it.
  std::uint32_t replica = 0;
};

class RankState {
 public:
  struct Item {
    ItemHeader header = {};
    std::vector<Value> parts = {};  // the parts of a tensor, one or several; or the object
  };

  // Flattens `tree` as dcp::flatten() does. Throws UnsupportedError for values that a folder cannot
  // hold, and UsageError for a tensor whose `part` does not fit the tensor.
  RankState(const RankPlace& place, const Value& tree);

  // Adds a further part of a tensor that the state already has under `fqn`. Throws UsageError if
  // the state does not have it, or if the part does not fit the tensor.
  void add_part(std::string_view fqn, const TensorView& part);
  // Adds a value that only this rank has, such as its random state, as item number `rank` of the
  // list `list` ("rng").
  void add_own(const std::string& list, const Value& value);

  const RankPlace& place() const { return place_; }
  const std::vector<Item>& items() const { return items_; }
  const std::vector<Item>& own_items() const { return own_; }

  // Calls use(item, part) for each part of each item, own items last. This order numbers the parts.
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

// Returns the items that `names` lists. Throws CorruptError, and UnsupportedError for a text of
// another version of cairn.
std::vector<ItemHeader> parse_names(std::string_view names);
// The digest by which `parts` refers to its names.
std::string digest_of_text(std::string_view text);

// The parsed `parts` text, which must outlive this object. The entries are not parsed.
struct RankParts {
  RankPlace place = {};
  std::string_view names_digest = {};
  std::string_view entries = {};  // of the items in the names, in order
  std::size_t count = 0;          // the number of parts in the entries
  std::vector<ItemHeader> own = {};
  std::string_view own_entries = {};
  std::size_t own_count = 0;

  // Throws CorruptError, and UnsupportedError for a text of another version of cairn.
  static RankParts parse(std::string_view parts);
};

// Reads entries, one item after the other.
class EntryReader {
 public:
  explicit EntryReader(std::string_view entries)
      : reader_(entries, "the description of a rank's parts") {}

  // Calls use(mask, cuts) for each part that the rank has of the next item, which is `item`. The
  // bits of `mask` are the dimensions in which the part is cut, and `cuts` has offset and size for
  // each of these. In the other dimensions the part is whole. Objects have no dimensions. Throws
  // CorruptError for a part outside of the tensor.
  void next(const ItemHeader& item, auto&& use) {
    std::array<std::int64_t, 2 * kMaxDims> cuts;
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
