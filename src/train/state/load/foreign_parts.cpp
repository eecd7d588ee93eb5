#include "train/state/load/foreign_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "cairn/error.h"
#include "cairn/foreign.h"
#include "cairn/train/optimizer.h"
#include "cairn/train/scaler.h"
#include "cairn/train/state.h"

#include "checkpoint/convert/drop_foreign.h"
#include "train/state/gather/entry_names.h"

namespace cairn {
namespace {

bool is_within(const std::string& path, const std::string& around) {
  return path.starts_with(around) && (path.size() == around.size() || path[around.size()] == '/');
}

[[noreturn]] void refuse(const std::string& path, const std::string& class_name) {
  throw UnsupportedError(
      fmt::format("{0} is an object of {1}, and cairn runs no code from a file. When the run does "
                  "not need it, leave it out: load_ignore_keys = {{\"{0}\"}}, or cairn convert "
                  "--drop-objects",
                  path, class_name));
}

// "a, b and 5 more"
std::string first_of(const std::vector<std::string>& paths) {
  std::string text = paths[0];
  if (paths.size() > 1) text += ", " + paths[1];
  return paths.size() <= 2 ? text : fmt::format("{} and {} more", text, paths.size() - 2);
}

// Whether a tree has numpy's numbers. Visits a shared object once.
class NumpySearch {
 public:
  bool finds_in(const Value& value) {
    if (value.kind() == Kind::kNumpyScalar) return true;
    if (!value.is_dict() && !value.is_list() && !value.is_tuple()) return false;
    if (value.may_be_shared() && !seen_.insert(value.identity()).second) return false;
    if (value.is_dict()) {
      return std::any_of(value.as_dict().begin(), value.as_dict().end(), [&](const auto& entry) {
        return finds_in(entry.first) || finds_in(entry.second);
      });
    }
    return std::any_of(value.as_items().begin(), value.as_items().end(),
                       [&](const Value& item) { return finds_in(item); });
  }

 private:
  std::unordered_set<const void*> seen_;
};

// Converts a shared object once, so that it stays one object.
class PlainNumbers {
 public:
  Value plain(const Value& value) {
    if (const auto* scalar = value.get_if<NumpyScalar>()) return scalar->number();
    const bool is_entered = value.is_dict() || value.is_list() || value.is_tuple();
    if (!is_entered || value.identity() == nullptr) return value;
    if (!value.may_be_shared()) return made_plain(value);
    const auto known = done_.find(value.identity());
    if (known != done_.end()) return known->second;
    return done_.emplace(value.identity(), made_plain(value)).first->second;
  }

 private:
  Value made_plain(const Value& value) {
    if (value.is_dict()) {
      Dict dict = value.as_dict().empty_like();
      for (const auto& [key, item] : value.as_dict()) {
        dict.set(plain(key), plain(item));
      }
      return dict;
    }
    List items;
    for (const Value& item : value.as_items()) {
      items.push_back(plain(item));
    }
    if (value.is_tuple()) return Tuple{std::move(items)};
    return items;
  }

  std::unordered_map<const void*, Value> done_;  // By identity of the original.
};

}  // namespace

std::vector<std::string> needed_parts(const State& state, const Value& saved) {
  std::vector<std::string> parts = {"model", "timestamp", "rank_zero_seed", "run_name",
                                    "dataset_state"};
  if (state.optimizer) parts.push_back("optimizers/" + optimizer_name(*state.optimizer));
  if (state.scaler) parts.push_back("scaler/" + state.scaler->name());
  const auto add_names = [&](const std::string& folder, const auto& objects) {
    std::vector<std::string> names;
    for (const auto& object : objects) {
      names.push_back(object->name());
    }
    for (const std::string& name : entry_names(names)) {
      parts.push_back(folder + "/" + name);
    }
  };
  add_names("schedulers", state.schedulers);
  add_names("callbacks", state.callbacks);
  std::map<std::string, std::size_t> live;  // The number of entries that load_algorithms() takes of
                                            // each name.
  for (const auto& algorithm : state.algorithms) {
    ++live[algorithm->name()];
  }
  const Value* algorithms = saved.find("algorithms");
  for (std::size_t i = 0;
       algorithms != nullptr && algorithms->is_list() && i < algorithms->as_items().size(); ++i) {
    const Value& pair = algorithms->as_items()[i];
    const bool has_name = (pair.is_tuple() || pair.is_list()) && !pair.as_items().empty() &&
                          pair.as_items()[0].is_str();
    const auto found = has_name ? live.find(pair.as_items()[0].as_str()) : live.end();
    if (found == live.end() || found->second == 0) continue;
    --found->second;
    parts.push_back("algorithms/" + std::to_string(i));
  }
  return parts;
}

std::vector<std::string> pass_over_foreign(Value& tree, const std::vector<std::string>& needed,
                                           const std::string& prefix) {
  const auto objects = foreign_objects(tree);
  if (objects.empty()) return {};
  std::map<std::string, std::vector<std::string>> by_class;
  for (const auto& [path, object] : objects) {
    const bool is_needed =
        std::any_of(needed.begin(), needed.end(), [&, &path = path](const std::string& part) {
          return is_within(path, part) || is_within(part, path);
        });
    if (is_needed) refuse(prefix + path, object->class_name());
    by_class[object->class_name()].push_back(prefix + path);
  }
  tree = drop_foreign(tree).value;
  std::vector<std::string> lines;
  for (const auto& [name, paths] : by_class) {
    lines.push_back(fmt::format("{}: passed over, as only Python's class {} could read {}",
                                first_of(paths), name, paths.size() == 1 ? "it" : "them"));
  }
  return lines;
}

Value with_plain_numbers(const Value& tree) {
  return NumpySearch().finds_in(tree) ? PlainNumbers().plain(tree) : tree;
}

}  // namespace cairn
