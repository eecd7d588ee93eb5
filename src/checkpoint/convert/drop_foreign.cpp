#include "checkpoint/convert/drop_foreign.h"

#include <unordered_map>

#include "cairn/error.h"
#include "cairn/foreign.h"

#include "value/value_path.h"

namespace cairn {
namespace {

class Dropper {
 public:
  // Value trees are at most a thousand levels deep, whatever file they come from.
  Value without(const Value& value, const std::string& path) {
    const bool is_entered =
        value.is_dict() || value.is_list() || value.is_tuple() || value.kind() == Kind::kSet;
    if (!is_entered || value.identity() == nullptr) return value;  // nullptr: empty
    const auto known = done_.find(value.identity());
    if (known != done_.end()) return known->second;
    Value result = rebuilt(value, path);
    done_.emplace(value.identity(), result);
    return result;
  }

  std::vector<std::pair<std::string, std::string>> take() { return std::move(dropped_); }

 private:
  static std::string below(const std::string& path, const std::string& key) {
    return path.empty() ? key : path + "/" + key;
  }

  bool drops(const Value& value, const std::string& path) {
    if (!value.is_foreign()) return false;
    dropped_.emplace_back(path, value.as_foreign().class_name());
    return true;
  }

  Value rebuilt(const Value& value, const std::string& path) {
    if (value.is_dict()) return rebuilt_dict(value.as_dict(), path);
    const List& from = value.kind() == Kind::kSet ? value.as_set().items : value.as_items();
    List items;
    for (std::size_t i = 0; i < from.size(); ++i) {
      const std::string here = below(path, std::to_string(i));
      if (!drops(from[i], here)) {
        items.push_back(without(from[i], here));
      } else if (value.kind() != Kind::kSet) {
        items.emplace_back(None{});
      }
    }
    if (value.kind() == Kind::kSet) return Set{std::move(items), value.as_set().frozen};
    if (value.is_tuple()) return Tuple{std::move(items)};
    return items;
  }

  Value rebuilt_dict(const Dict& dict, const std::string& path) {
    Dict result(dict.type());
    for (const auto& [key, item] : dict) {
      const std::string here = below(path, key_text(key));
      if (drops(key, here) || drops(item, here)) continue;
      result.set(without(key, here), without(item, here));
    }
    if (!dict.attributes().is_none()) {
      result.set_attributes(without(dict.attributes(), below(path, "__dict__")));
    }
    const Value& factory = dict.default_factory();
    if (is_plain_factory(factory)) {
      result.set_default_factory(factory);
    } else {
      drops(factory, below(path, "default_factory"));
    }
    return result;
  }

  std::unordered_map<const void*, Value> done_;  // by the identity of the original value
  std::vector<std::pair<std::string, std::string>> dropped_;
};

}  // namespace

WithoutForeign drop_foreign(const Value& root) {
  if (root.is_foreign()) {
    throw UnsupportedError("the whole object is one of " + root.as_foreign().class_name() +
                           ": without it nothing is left");
  }
  Dropper dropper;
  Value value = dropper.without(root, "");
  return {std::move(value), dropper.take()};
}

}  // namespace cairn
