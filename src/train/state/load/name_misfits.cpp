#include "train/state/load/name_misfits.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "checkpoint/names/rename_weight.h"

namespace cairn {
namespace {

using Names = std::vector<std::string>;
using FromAndTo = std::pair<std::string, std::string>;

// Module wrappers insert these into the names of the weights that they wrap.
constexpr const char* kWrappers[] = {"_orig_mod.", "_fsdp_wrapped_module.",
                                     "_checkpoint_wrapped_module."};

// Calls use(suffix) for the name and for the rest after each dot of the name, longest first, until
// `use` returns true.
void for_each_suffix(std::string_view name, const auto& use) {
  while (!use(name)) {
    const std::size_t dot = name.find('.');
    if (dot == std::string_view::npos) return;
    name.remove_prefix(dot + 1);
  }
}

// Removes the parts that both names begin with.
FromAndTo without_common_parts(FromAndTo rule) {
  auto& [from, to] = rule;
  for (;;) {
    const std::size_t end = from.find('.') + 1;
    if (end == 0 || from.substr(0, end) != to.substr(0, end)) return rule;
    from.erase(0, end);
    to.erase(0, end);
  }
}

// For each missing name: finds an unexpected name with the longest common end, and counts the pair
// of prefixes before that end.
std::map<FromAndTo, std::size_t> count_prefixes(const IncompatibleKeys& keys) {
  std::unordered_map<std::string_view, const std::string*> by_suffix;
  for (const std::string& name : keys.unexpected) {
    for_each_suffix(name, [&](std::string_view suffix) {
      by_suffix.emplace(suffix, &name);
      return false;
    });
  }
  std::map<FromAndTo, std::size_t> counts;
  for (const std::string& name : keys.missing) {
    for_each_suffix(name, [&](std::string_view suffix) {
      const auto found = by_suffix.find(suffix);
      if (found == by_suffix.end()) return false;
      const std::string& other = *found->second;
      ++counts[{other.substr(0, other.size() - suffix.size()),
                name.substr(0, name.size() - suffix.size())}];
      return true;
    });
  }
  return counts;
}

// Returns the renamings to try, the simplest first.
std::vector<FromAndTo> candidates(const IncompatibleKeys& keys) {
  std::vector<FromAndTo> rules;
  for (const char* wrapper : kWrappers) {
    rules.emplace_back(wrapper, "");
  }
  const auto counts = count_prefixes(keys);
  const auto is_less = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto most = std::max_element(counts.begin(), counts.end(), is_less);
  if (most == counts.end()) return rules;
  rules.push_back(without_common_parts(most->first));
  rules.push_back(most->first);
  return rules;
}

std::string quoted(const Names& names, std::size_t most) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), most); ++i) {
    text += (text.empty() ? "\"" : ", \"") + names[i] + "\"";
  }
  return names.size() > most ? fmt::format("{} and {} more", text, names.size() - most) : text;
}

void add_renaming(const IncompatibleKeys& keys, std::vector<std::string>& lines) {
  const auto found = find_renaming(keys);
  if (!found) return;
  const auto& [from, to, fits] = *found;
  lines.push_back(
      fmt::format("{} of {} missing names fit when \"{}\" becomes \"{}\" in the names of the "
                  "checkpoint.\nSet load_ignore_keys = cairn::rename_weights(\"{}\", \"{}\"); for "
                  "load_state_dict() give rename_weights(state_dict, \"{}\", \"{}\")",
                  fits, keys.missing.size(), from, to, from, to, from, to));
}

}  // namespace

std::optional<Renaming> find_renaming(const IncompatibleKeys& keys) {
  const std::unordered_set<std::string> missing(keys.missing.begin(), keys.missing.end());
  Renaming best;
  for (const auto& [from, to] : candidates(keys)) {
    if (from == to) continue;
    std::unordered_set<std::string> fitting;
    for (const std::string& name : keys.unexpected) {
      std::string other = rename_weight(name, from, to);
      if (missing.contains(other)) fitting.insert(std::move(other));
    }
    if (fitting.size() > best.fits) best = {from, to, fitting.size()};
  }
  const std::size_t least = std::min(keys.missing.size(), keys.unexpected.size());
  if (best.fits == 0 || 4 * best.fits < 3 * least) return std::nullopt;
  // Shapes are not known here. One name of many may fit by chance.
  if (best.fits == 1 && keys.missing.size() > 2) return std::nullopt;
  return best;
}

std::vector<std::string> list_misfits(const IncompatibleKeys& keys) {
  constexpr std::size_t kAll = ~std::size_t{0};
  std::vector<std::string> lines;
  if (!keys.missing.empty()) lines.push_back("missing names: " + quoted(keys.missing, kAll));
  if (!keys.unexpected.empty()) {
    lines.push_back("unexpected names: " + quoted(keys.unexpected, kAll));
  }
  add_renaming(keys, lines);
  return lines;
}

std::vector<std::string> summarize_misfits(const IncompatibleKeys& keys) {
  constexpr std::size_t kSome = 5;
  std::vector<std::string> lines;
  if (!keys.missing.empty()) {
    lines.push_back(
        fmt::format("weights of the model that the checkpoint lacks, and that stay as they are "
                    "({}): {}",
                    keys.missing.size(), quoted(keys.missing, kSome)));
  }
  if (!keys.unexpected.empty()) {
    lines.push_back(fmt::format("weights of the checkpoint that the model lacks ({}): {}",
                                keys.unexpected.size(), quoted(keys.unexpected, kSome)));
  }
  add_renaming(keys, lines);
  return lines;
}

}  // namespace cairn
