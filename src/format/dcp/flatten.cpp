#include "format/dcp/flatten.h"

#include <algorithm>
#include <unordered_set>

#include "cairn/error.h"

#include "core/seeded_hash.h"

namespace cairn::dcp {
namespace {

constexpr std::size_t kMaxDepth = 1000;  // Python's own limit

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
  }
  std::vector<FlatItem> take() { return std::move(items_); }

 private:
  static bool is_entered(const Value& list, std::size_t depth) {
    if (depth > kMaxDepth) throw UnsupportedError("nested deeper than 1000 levels");
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
    if (!names_.insert(fqn).second) {
      throw UnsupportedError("two items are named \"" + fqn +
                             "\" when their keys are joined by dots");
    }
    items_.push_back({std::move(fqn), path_, &value});
  }

  std::vector<std::variant<std::string, std::int64_t>> path_;
  std::vector<FlatItem> items_;
  std::unordered_set<std::string, TextHash> names_;
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
