// Chooses parts of a tree by their paths, as several commands do.
#pragma once

#include <string>
#include <vector>

namespace cairn::cli {

// Whether a pattern names `path` or a branch above it: "state/model", "state/model/*.weight". The
// patterns are those of glob_match().
bool matches_path(const std::vector<std::string>& patterns, const std::string& path);

}  // namespace cairn::cli
