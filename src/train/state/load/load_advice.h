// Advice in the messages about a checkpoint that does not fit.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "core/text/printable.h"

namespace cairn {

// Autoresume loads the whole checkpoint; load_ignore_keys works only with load_path. One start with
// these options leaves parts of `path` out, and later starts may autoresume again.
inline std::string one_start_without_autoresume(const std::string& path) {
  return fmt::format("start once with autoresume = false, load_path = \"{}\"",
                     printable_line(path));
}

// `patterns` match the entries that do not fit.
inline std::string advice_to_ignore(const std::vector<std::string>& patterns) {
  return fmt::format("To leave what does not fit as it is, set load_ignore_keys = {{\"{}\"}}",
                     fmt::join(patterns, "\", \""));
}

// The pattern that matches only `name`.
inline std::string glob_of(const std::string& name) {
  std::string pattern;
  for (const char c : name) {
    const bool is_special = c == '*' || c == '?' || c == '[';
    pattern += is_special ? std::string{'[', c, ']'} : std::string{c};
  }
  return pattern;
}

}  // namespace cairn
