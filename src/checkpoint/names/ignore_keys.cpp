#include "cairn/checkpoint/ignore_keys.h"

#include <optional>

#include "cairn/error.h"

#include "checkpoint/names/patterns.h"
#include "value/value_path.h"

namespace cairn {
namespace {

// One removal by patterns. Every node is matched, also below one that is removed, so that each
// pattern knows whether it matched anything.
class Removal {
 public:
  explicit Removal(const std::vector<std::string>& patterns) : patterns_(patterns) {}

  // The node without what matches below it, or nullopt when nothing does. `prefix` is the node's
  // path with a closing slash. Tuples are not entered, as in Composer.
  std::optional<Value> filtered(const Value& node, const std::string& prefix) {
    if (node.is_dict()) return filtered_dict(node.as_dict(), prefix);
    if (node.is_list()) return filtered_list(node.as_items(), prefix);
    return std::nullopt;
  }

  std::vector<std::string> unmatched() const { return patterns_.unmatched(); }

 private:
  std::optional<Value> filtered_dict(const Dict& dict, const std::string& prefix) {
    Dict kept = dict.empty_like();
    bool changed = false;
    for (const auto& [key, value] : dict) {
      const auto part = filtered_part(value, prefix + key_text(key), changed);
      if (part) kept.set(key, *part);
    }
    if (!changed) return std::nullopt;
    return kept;
  }

  std::optional<Value> filtered_list(const List& list, const std::string& prefix) {
    List kept;
    bool changed = false;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const auto part = filtered_part(list[i], prefix + std::to_string(i), changed);
      if (part) kept.push_back(*part);
    }
    if (!changed) return std::nullopt;
    return kept;
  }

  // What is left of a child, or nullopt when it goes; sets `changed` when it is not the same.
  std::optional<Value> filtered_part(const Value& part, const std::string& path, bool& changed) {
    const bool removed = patterns_.match(path);
    auto inner = filtered(part, path + "/");
    changed = changed || removed || inner;
    if (removed) return std::nullopt;
    return inner ? inner : part;
  }

  Patterns patterns_;
};

}  // namespace

IgnoreKeys::IgnoreKeys(std::initializer_list<const char*> patterns)
    : rule_(std::vector<std::string>(patterns.begin(), patterns.end())) {}

bool IgnoreKeys::empty() const {
  if (const auto* patterns = std::get_if<std::vector<std::string>>(&rule_))
    return patterns->empty();
  return !std::get<std::function<void(Value&)>>(rule_);
}

std::vector<std::string> IgnoreKeys::apply(Value& root) const {
  if (empty()) return {};
  if (!root.is_dict()) {
    throw UsageError("ignore keys: expected a dict at the top, found " +
                     std::string(root.type_name()));
  }
  const bool had_state = root.find("state") != nullptr;
  std::vector<std::string> unmatched;
  if (const auto* patterns = std::get_if<std::vector<std::string>>(&rule_)) {
    Removal removal(*patterns);
    if (auto filtered = removal.filtered(root, "")) root = std::move(*filtered);
    unmatched = removal.unmatched();
  } else {
    std::get<std::function<void(Value&)>>(rule_)(root);
  }
  if (had_state && root.find("state") == nullptr) root.mutable_dict().set("state", Dict{});
  return unmatched;
}

}  // namespace cairn
