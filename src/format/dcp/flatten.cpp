#include "format/dcp/flatten.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "cairn/error.h"

#include "core/seeded_hash.h"

namespace cairn::dcp {
namespace {

constexpr std::size_t kMaxDepth = 1000;  // Python's own limit
// What one tree may list again of containers that stand at several places. A file of a few hundred
// bytes can hold a dict at a million places, each of which would be an item.
constexpr std::uint64_t kFreeRepeats = std::uint64_t{64} << 20;
constexpr std::uint64_t kRepeatsPerByte = 8;
constexpr std::uint64_t kVisitBytes = 64;  // what looking at a value counts for

// str(key) in Python.
std::string python_text(const Value& key) {
  if (key.is_str()) return key.as_str();
  if (key.kind() == Kind::kBool) return key.as_bool() ? "True" : "False";
  if (key.is_int()) return std::to_string(key.as_int());
  if (key.is_none()) return "None";
  throw UnsupportedError("a key of type " + std::string(key.type_name()) +
                         ", which torch.distributed.checkpoint would turn into a text");
}

class Flattener {
 public:
  void enter(const Value& value) {
    if (path_.size() > kMaxDepth) throw UnsupportedError("nested deeper than 1000 levels");
    const bool is_again = value.may_be_shared() && value.identity() != nullptr &&
                          !entered_.insert(value.identity()).second;
    if (is_again) ++again_;
    if (again_ > 0) repeat(kVisitBytes);
    if (value.is_dict()) {
      for (const auto& [key, item] : value.as_dict()) {
        path_.emplace_back(python_text(key));
        enter(item);
        path_.pop_back();
      }
    } else if (value.is_list() && is_entered(value, 0)) {
      for (const Value& item : value.as_items()) {
        path_.emplace_back(static_cast<std::int64_t>(&item - value.as_items().data()));
        enter(item);
        path_.pop_back();
      }
    } else {
      add(value);
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
    again_ > 0 ? repeat(bytes) : void(first_bytes_ += bytes);
    if (!names_.insert(fqn).second) {
      throw UnsupportedError("two items are named \"" + fqn +
                             "\" when their keys are joined by dots");
    }
    items_.push_back({std::move(fqn), path_, &value});
  }

  void repeat(std::uint64_t bytes) {
    repeated_bytes_ += bytes;
    if (repeated_bytes_ <= kFreeRepeats + kRepeatsPerByte * first_bytes_) return;
    throw UnsupportedError(
        "the object repeats itself until it is out of proportion to its size: a "
        "torch.distributed.checkpoint folder has an item for each place at which a value stands; "
        "leave the part out, or write a torch.save file, which holds it once");
  }

  std::vector<std::variant<std::string, std::int64_t>> path_;
  std::vector<FlatItem> items_;
  std::unordered_set<std::string, TextHash> names_;
  std::unordered_set<const void*> entered_;            // of what may stand at several places
  std::unordered_map<const void*, bool> holds_items_;  // of lists that may
  std::size_t again_ = 0;                              // so many around here were entered before
  std::uint64_t first_bytes_ = 0;                      // of the items that no such one is around
  std::uint64_t repeated_bytes_ = 0;
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
