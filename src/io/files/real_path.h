// The place in the file system that a path stands for.
#pragma once

#include <string>

namespace cairn {

// Returns the absolute path, with links followed as far as the path exists: two paths of one folder
// give the same result. A part that does not exist yet, or may not be read, is taken by its text.
std::string real_path(const std::string& path);

}  // namespace cairn
