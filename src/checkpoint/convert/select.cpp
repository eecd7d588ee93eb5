#include "checkpoint/convert/select.h"

#include <optional>

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

  // What is kept of a node; nullopt when nothing is. `is_included`: something around it matched.
  std::optional<Value> kept(const Value& node, const std::string& path, bool is_included) {
    const bool is_excluded = exclude_.match(path);
    is_included = include_.match(path) || is_included;
    std::optional<Value> result;
    if (node.is_dict()) {
      result = kept_dict(node.as_dict(), path, is_included);
    } else if (node.is_list() || node.is_tuple()) {
      result = kept_items(node, path, is_included);
    } else if (is_included) {
      result = node;
    }
    return is_excluded ? std::nullopt : result;
  }

  std::optional<Value> kept_root(const Value& root) { return kept(root, "", includes_all_); }

  void check_all_matched() const {
    require_matched(include_);
    require_matched(exclude_);
  }

 private:
  static std::string below(const std::string& path, const std::string& name) {
    return path.empty() ? name : path + "/" + name;
  }

  std::optional<Value> kept_dict(const Dict& dict, const std::string& path, bool is_included) {
    Dict result = dict.empty_like();
    for (const auto& [key, value] : dict) {
      auto part = kept(value, below(path, key_text(key)), is_included);
      if (part) result.set(key, std::move(*part));
    }
    if (result.empty() && !is_included) return std::nullopt;
    return result;
  }

  std::optional<Value> kept_items(const Value& node, const std::string& path, bool is_included) {
    List result;
    const List& items = node.as_items();
    for (std::size_t i = 0; i < items.size(); ++i) {
      auto part = kept(items[i], below(path, std::to_string(i)), is_included);
      if (part) result.push_back(std::move(*part));
    }
    if (result.empty() && !is_included) return std::nullopt;
    if (node.is_tuple()) return Tuple{std::move(result)};
    return result;
  }

  bool includes_all_;
  Patterns include_;
  Patterns exclude_;
};

}  // namespace

Value select(const Value& root, const Selection& selection) {
  if (selection.include.empty() && selection.exclude.empty()) return root;
  Selector selector(selection);
  auto kept = selector.kept_root(root);
  selector.check_all_matched();
  if (!kept) throw UsageError("the patterns leave nothing");
  return std::move(*kept);
}

}  // namespace cairn
