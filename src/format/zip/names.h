// Names inside a zip. They are only keys, never paths, but a name that would be dangerous as a path
// has no business in a checkpoint.
#pragma once

#include <string>
#include <string_view>

namespace cairn::zip {

// False for an empty, absolute or overlong name, an empty, "." or ".." component, a backslash or a
// NUL.
bool is_safe_name(std::string_view name);

// ASCII letters in lower case: PyTorch looks records up without regard to case.
std::string folded(std::string_view name);

}  // namespace cairn::zip
