#include "models/name_map.h"

#include <algorithm>

namespace cairn {
namespace {

bool match_rest(std::string_view pattern, std::string_view name, std::vector<std::string>& parts) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == name;
  if (!name.starts_with(pattern.substr(0, star))) return false;
  name.remove_prefix(star);
  pattern.remove_prefix(star + 1);
  const std::size_t longest = std::min(name.find('.'), name.size());
  for (std::size_t size = longest; size > 0; --size) {
    parts.emplace_back(name.substr(0, size));
    if (match_rest(pattern, name.substr(size), parts)) return true;
    parts.pop_back();
  }
  return false;
}

// The names by which rules may know a name of a file: with and without the base model's prefix.
std::vector<std::string> forms_of(const HuggingFaceOptions& options, const std::string& name) {
  std::vector<std::string> forms = {name};
  if (options.base_model_prefix.empty()) return forms;
  const std::string prefix = options.base_model_prefix + ".";
  forms.push_back(name.starts_with(prefix) ? name.substr(prefix.size()) : prefix + name);
  return forms;
}

}  // namespace

std::optional<std::vector<std::string>> match_name(std::string_view pattern,
                                                   std::string_view name) {
  std::vector<std::string> parts;
  if (!match_rest(pattern, name, parts)) return std::nullopt;
  return parts;
}

std::string fill_name(std::string_view pattern, const std::vector<std::string>& parts) {
  std::string name;
  std::size_t next = 0;
  for (const char c : pattern) {
    if (c == '*') {
      name += parts.at(next++);
    } else {
      name += c;
    }
  }
  return name;
}

MappedName name_in_module(const HuggingFaceOptions& options, const std::string& name_in_file) {
  for (const std::string& form : forms_of(options, name_in_file)) {
    for (const HuggingFaceName& rule : options.names) {
      if (const auto parts = match_name(rule.file, form))
        return {fill_name(rule.module, *parts), rule.is_transposed};
    }
  }
  return {name_in_file};
}

MappedName name_in_file(const HuggingFaceOptions& options, const std::string& name_in_module) {
  for (const HuggingFaceName& rule : options.names) {
    if (const auto parts = match_name(rule.module, name_in_module))
      return {fill_name(rule.file, *parts), rule.is_transposed};
  }
  return {name_in_module};
}

bool is_ignored(const HuggingFaceOptions& options, const std::string& name_in_file) {
  return std::ranges::any_of(forms_of(options, name_in_file), [&](const std::string& form) {
    return std::ranges::any_of(options.ignored, [&](const std::string& pattern) {
      return match_name(pattern, form).has_value();
    });
  });
}

}  // namespace cairn
