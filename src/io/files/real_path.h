// Which place in the file system a path stands for.
#pragma once

#include <string>

namespace cairn {

// The absolute path, links followed as far as it exists: two paths of one folder are equal. What
// does not exist yet, or may not be looked at, is taken by its text.
std::string real_path(const std::string& path);

}  // namespace cairn
