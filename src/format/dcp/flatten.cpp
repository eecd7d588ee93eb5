#include "format/dcp/flatten.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "cairn/error.h"
#include "cairn/foreign.h"

#include "core/hash/seeded_hash.h"
#include "format/dcp/metadata/layout.h"
#include "format/pickle/read/graph.h"
#include "value/children.h"

namespace cairn::dcp {
namespace {

constexpr std::size_t kMaxDepth = 1000;  // Python's own limit

// Limits how much is listed again for values at several places of a tree. A file of a few hundred
// bytes can hold a dict at a million places, each of which would be an item. A file can also place
// one bytes object of a megabyte in a million items, each of which is encoded by itself.
class Repeats {
 public:
  // Returns whether a container, whose items are listed, is met for the first time.
  bool is_first(const Value& container) { return see(container) == Seen::kNever; }
  // `around` says whether the container of the item is met for the first time. Throws as count().
  void add_item(const Value& item, std::uint64_t name_bytes, bool around) {
    ++item_;
    count(name_bytes, around);
    add_part(item, around);
  }
  // Throws UnsupportedError if too much is repeated.
  void count(std::uint64_t bytes, bool is_first) {
    (is_first ? first_bytes_ : again_bytes_) += bytes;
    if (again_bytes_ <= kFree + kPerByte * first_bytes_) return;
    throw UnsupportedError(
        "the object repeats values too often: in a torch.distributed.checkpoint folder, or for "
        "ranks that read parts, each place of a value is an item; leave some out, or save one "
        "torch.save file");
  }

 private:
  static constexpr std::uint64_t kFree = std::uint64_t{64} << 20;
  static constexpr std::uint64_t kPerByte = 8;

  enum class Seen : std::uint8_t { kNever, kInThisItem, kElsewhere };

  Seen see(const Value& value) {
    if (!value.may_be_shared() || value.identity() == nullptr) return Seen::kNever;
    const auto [last, is_new] = last_item_.try_emplace(value.identity(), item_);
    if (is_new) return Seen::kNever;
    return std::exchange(last->second, item_) == item_ ? Seen::kInThisItem : Seen::kElsewhere;
  }

  // Within an item, each object counts once.
  void add_part(const Value& value, bool around) {
    const Seen seen = see(value);
    if (seen == Seen::kInThisItem) return;
    const bool is_first = around && seen == Seen::kNever;
    count(sizeof(Value) + pickle::owned_bytes(value), is_first);
    for_each_child(value, [&](const Value& child) { add_part(child, is_first); });
  }

  std::uint64_t item_ = 0;
  std::unordered_map<const void*, std::uint64_t> last_item_;  // for values that may be shared
  std::uint64_t first_bytes_ = 0;
  std::uint64_t again_bytes_ = 0;
};

// Returns what Python's str(key) gives.
std::string python_text(const Value& key) {
  if (key.is_str()) return key.as_str();
  if (key.kind() == Kind::kBool) return key.as_bool() ? "True" : "False";
  if (key.is_int()) return std::to_string(key.as_int());
  if (key.is_none()) return "None";
  throw UnsupportedError("a key of type " + std::string(key.type_name()) +
                         ", which torch.distributed.checkpoint would turn into a text");
}

constexpr std::uint64_t kVisitBytes = 64;  // what a repeated visit of a value counts as

class Flattener {
 public:
  void enter(const Value& value) {
    if (path_.size() > kMaxDepth) throw UnsupportedError("nested deeper than 1000 levels");
    if (again_ > 0) repeats_.count(kVisitBytes, /*is_first=*/false);
    const bool is_list = value.is_list() && is_entered(value, 0);
    if (!value.is_dict() && !is_list) return add(value);
    const bool is_again = !repeats_.is_first(value);
    if (is_again) ++again_;
    if (value.is_dict()) {
      for (const auto& [key, item] : value.as_dict()) {
        path_.emplace_back(python_text(key));
        enter(item);
        path_.pop_back();
      }
    } else {
      for (const Value& item : value.as_items()) {
        path_.emplace_back(static_cast<std::int64_t>(&item - value.as_items().data()));
        enter(item);
        path_.pop_back();
      }
    }
    if (is_again) --again_;
  }
  std::vector<FlatItem> take() { return std::move(items_); }

 private:
  bool is_entered(const Value& list, std::size_t depth) {
    if (depth > kMaxDepth) throw UnsupportedError("nested deeper than 1000 levels");
    if (!list.may_be_shared()) return holds_items(list, depth);
    const auto known = holds_items_.find(list.identity());
    if (known != holds_items_.end()) return known->second;
    return holds_items_.emplace(list.identity(), holds_items(list, depth)).first->second;
  }

  bool holds_items(const Value& list, std::size_t depth) {
    return std::any_of(list.as_items().begin(), list.as_items().end(), [&](const Value& item) {
      return item.is_dict() || item.is_tensor() || (item.is_list() && is_entered(item, depth + 1));
    });
  }

  void add(const Value& value) {
    std::string fqn;
    for (const auto& part : path_) {
      if (!fqn.empty() || &part != path_.data()) fqn += '.';
      const auto* key = std::get_if<std::string>(&part);
      fqn += key != nullptr ? *key : std::to_string(std::get<std::int64_t>(part));
    }
    const std::uint64_t bytes = sizeof(FlatItem) + 2 * fqn.size() + path_.size() * sizeof(path_[0]);
    repeats_.add_item(value, bytes, /*around=*/again_ == 0);
    if (value.is_tensor() && value.as_tensor().shape.size() > kMaxDims) {
      throw UnsupportedError("tensor \"" + fqn + "\" has " +
                             std::to_string(value.as_tensor().shape.size()) +
                             " dimensions, and PyTorch reads at most " + std::to_string(kMaxDims));
    }
    if (!names_.insert(fqn).second) {
      throw UnsupportedError("two items are named \"" + fqn +
                             "\" when their keys are joined by dots");
    }
    items_.push_back({std::move(fqn), path_, &value});
  }

  std::vector<std::variant<std::string, std::int64_t>> path_;
  std::vector<FlatItem> items_;
  std::unordered_set<std::string, TextHash> names_;
  Repeats repeats_;
  std::unordered_map<const void*, bool> holds_items_;  // for lists that may be shared
  std::size_t again_ = 0;                              // enclosing containers that were met before
};

}  // namespace

std::vector<FlatItem> flatten(const Value& root) {
  if (!root.is_dict()) {
    throw UnsupportedError("a torch.distributed.checkpoint folder holds a dict, not a " +
                           std::string(root.type_name()));
  }
  Flattener flattener;
  flattener.enter(root);
  return flattener.take();
}

}  // namespace cairn::dcp
