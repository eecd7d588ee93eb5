#include "checkpoint/convert/select.h"

#include <compare>
#include <map>
#include <optional>
#include <utility>

#include "cairn/error.h"

#include "checkpoint/names/patterns.h"
#include "value/value_path.h"

namespace cairn {
namespace {

void require_matched(const Patterns& patterns) {
  const std::vector<std::string> unmatched = patterns.unmatched();
  if (unmatched.empty()) return;
  throw UsageError("the pattern '" + unmatched.front() +
                   "' matches nothing; `cairn inspect` shows the paths that there are");
}

class Selector {
 public:
  explicit Selector(const Selection& selection)
      : includes_all_(selection.include.empty()),
        include_(selection.include),
        exclude_(selection.exclude) {}

  std::optional<Value> kept_root(const Value& root) {
    return kept(root, {include_.begin(), exclude_.begin(), true, includes_all_});
  }

  void check_all_matched() const {
    require_matched(include_);
    require_matched(exclude_);
  }

 private:
  // Everything besides the node itself that decides how much of the node is kept.
  struct Way {
    Patterns::Place include;  // the place of the node's path
    Patterns::Place exclude;
    bool is_empty = false;     // whether the path is empty
    bool is_included = false;  // a container of the node matched
    auto operator<=>(const Way&) const = default;
  };

  Way below(const Way& way, const std::string& name) const {
    const std::string text = way.is_empty ? name : "/" + name;
    return {include_.after(way.include, text), exclude_.after(way.exclude, text), text.empty(),
            way.is_included};
  }

  // Returns the kept part of a node; nullopt if nothing is kept.
  std::optional<Value> kept(const Value& node, const Way& way) {
    const bool is_container = node.is_dict() || node.is_list() || node.is_tuple();
    if (!is_container || node.identity() == nullptr || !node.may_be_shared()) {
      return kept_new(node, way);
    }
    const auto key = std::pair(node.identity(), way);
    const auto known = done_.find(key);
    if (known != done_.end()) return known->second;
    return done_.emplace(key, kept_new(node, way)).first->second;
  }

  std::optional<Value> kept_new(const Value& node, Way way) {
    const bool is_excluded = exclude_.match(way.exclude);
    way.is_included = include_.match(way.include) || way.is_included;
    std::optional<Value> result;
    if (node.is_dict()) {
      result = kept_dict(node, way);
    } else if (node.is_list() || node.is_tuple()) {
      result = kept_items(node, way);
    } else if (way.is_included) {
      result = node;
    }
    return is_excluded ? std::nullopt : result;
  }

  // A node that is kept whole stays the same object.
  static bool is_same(const Value& part, const Value& node) {
    return part.identity() == node.identity();
  }

  std::optional<Value> kept_dict(const Value& node, const Way& way) {
    Dict result = node.as_dict().empty_like();
    bool is_whole = true;
    for (const auto& [key, value] : node.as_dict()) {
      auto part = kept(value, below(way, key_text(key)));
      is_whole = is_whole && part && is_same(*part, value);
      if (part) result.set(key, std::move(*part));
    }
    if (result.empty() && !way.is_included) return std::nullopt;
    if (is_whole) return node;
    return result;
  }

  std::optional<Value> kept_items(const Value& node, const Way& way) {
    List result;
    const List& items = node.as_items();
    bool is_whole = true;
    for (std::size_t i = 0; i < items.size(); ++i) {
      auto part = kept(items[i], below(way, std::to_string(i)));
      is_whole = is_whole && part && is_same(*part, items[i]);
      if (part) result.push_back(std::move(*part));
    }
    if (result.empty() && !way.is_included) return std::nullopt;
    if (is_whole) return node;
    if (node.is_tuple()) return Tuple{std::move(result)};
    return result;
  }

  bool includes_all_;
  Patterns include_;
  Patterns exclude_;
  // Results for nodes that may be at several places.
  std::map<std::pair<const void*, Way>, std::optional<Value>> done_;
};

}  // namespace

Value select(const Value& root, const Selection& selection) {
  if (selection.include.empty() && selection.exclude.empty()) return root;
  Selector selector(selection);
  auto kept = selector.kept_root(root);
  selector.check_all_matched();
  if (!kept) throw UsageError("the patterns of `include` and `exclude` leave nothing");
  return std::move(*kept);
}

}  // namespace cairn
