#include "cli/view/path_match.h"

#include <algorithm>

#include "cairn/checkpoint/ignore_keys.h"

namespace cairn::cli {

bool matches_path(const std::vector<std::string>& patterns, const std::string& path) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
    return glob_match(pattern, path) || glob_match(pattern + "/*", path);
  });
}

}  // namespace cairn::cli
