#include "cairn/checkpoint/ignore_keys.h"

#include <map>
#include <optional>
#include <utility>

#include "cairn/error.h"

#include "checkpoint/names/patterns.h"
#include "checkpoint/names/rename_weight.h"
#include "value/value_path.h"

namespace cairn {
namespace {

// Removes the parts of one tree that match the patterns. Every node is matched, even below a
// removed one, so that unmatched() is right for each pattern.
class KeyRemoval {
 public:
  explicit KeyRemoval(const std::vector<std::string>& patterns) : patterns_(patterns) {}

  // Returns `root` without the parts that match, or nullopt if nothing matches.
  std::optional<Value> filtered(const Value& root) { return filtered(root, patterns_.begin()); }

  std::vector<std::string> unmatched() const { return patterns_.unmatched(); }

 private:
  using Place = Patterns::Place;

  // Returns the node without the matching parts below it, or nullopt if nothing matches. `prefix`
  // is the node's path with a closing slash. Tuples are not entered, as in Composer.
  std::optional<Value> filtered(const Value& node, const Place& prefix) {
    if (node.identity() == nullptr || !node.may_be_shared()) return filtered_new(node, prefix);
    const auto key = std::pair(node.identity(), prefix);
    const auto known = done_.find(key);
    if (known != done_.end()) return known->second;
    return done_.emplace(key, filtered_new(node, prefix)).first->second;
  }

  std::optional<Value> filtered_new(const Value& node, const Place& prefix) {
    return node.is_dict() ? filtered_dict(node.as_dict(), prefix)
                          : filtered_list(node.as_items(), prefix);
  }

  std::optional<Value> filtered_dict(const Dict& dict, const Place& prefix) {
    Dict kept = dict.empty_like();
    bool changed = false;
    for (const auto& [key, value] : dict) {
      const auto part = filtered_part(value, patterns_.after(prefix, key_text(key)), changed);
      if (part) kept.set(key, *part);
    }
    if (!changed) return std::nullopt;
    return kept;
  }

  std::optional<Value> filtered_list(const List& list, const Place& prefix) {
    List kept;
    bool changed = false;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const auto part = filtered_part(list[i], patterns_.after(prefix, std::to_string(i)), changed);
      if (part) kept.push_back(*part);
    }
    if (!changed) return std::nullopt;
    return kept;
  }

  // Returns what is left of a child, or nullopt if the child is removed. Sets `changed` if anything
  // in the child changes.
  std::optional<Value> filtered_part(const Value& part, const Place& path, bool& changed) {
    const bool removed = patterns_.match(path);
    const bool is_entered = part.is_dict() || part.is_list();
    auto inner = is_entered ? filtered(part, patterns_.after(path, "/")) : std::nullopt;
    changed = changed || removed || inner;
    if (removed) return std::nullopt;
    return inner ? inner : part;
  }

  Patterns patterns_;
  // Results for nodes that may appear at several places of the tree.
  std::map<std::pair<const void*, Place>, std::optional<Value>> done_;
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
    KeyRemoval removal(*patterns);
    if (auto filtered = removal.filtered(root)) root = std::move(*filtered);
    unmatched = removal.unmatched();
  } else {
    std::get<std::function<void(Value&)>>(rule_)(root);
  }
  if (had_state && root.find("state") == nullptr) root.mutable_dict().set("state", Dict{});
  return unmatched;
}

std::string rename_weight(const std::string& name, const std::string& from, const std::string& to) {
  std::size_t at = name.find(from);
  while (at != std::string::npos && at > 0 && name[at - 1] != '.') {
    at = name.find(from, at + 1);
  }
  if (at == std::string::npos) return name;
  return std::string(name).replace(at, from.size(), to);
}

Value rename_weights(const Value& state_dict, const std::string& from, const std::string& to) {
  if (!state_dict.is_dict()) {
    throw UsageError("rename_weights(): a state_dict is a dict of tensors, this is a " +
                     std::string(state_dict.type_name()));
  }
  Dict result = state_dict.as_dict().empty_like();
  for (const auto& [key, value] : state_dict.as_dict()) {
    const Value name = key.is_str() ? Value(rename_weight(key.as_str(), from, to)) : key;
    if (result.find(name) != nullptr) {
      throw MismatchError("rename_weights(\"" + from + "\", \"" + to +
                          "\"): two names of the file become \"" + key_text(name) +
                          "\"; give a longer prefix, or leave one of the two out");
    }
    result.set(name, value);
  }
  return result;
}

IgnoreKeys rename_weights(const std::string& from, const std::string& to) {
  return IgnoreKeys([from, to](Value& root) {
    const Value* const model = find_path(root, "state/model");
    if (model == nullptr) return;  // the load will report what is there instead
    Value renamed_model = rename_weights(*model, from, to);
    root.mutable_dict()["state"].mutable_dict()["model"] = std::move(renamed_model);
  });
}

}  // namespace cairn
