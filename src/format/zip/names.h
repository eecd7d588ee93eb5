// Names inside a zip. They are used as keys, never as paths. Names that would be dangerous as paths
// are refused anyway.
#pragma once

#include <string>
#include <string_view>

namespace cairn::zip {

// Returns false for an empty, absolute or overlong name, for an empty, "." or ".." component, and
// for a backslash or a NUL.
bool is_safe_name(std::string_view name);

// Returns the name with ASCII letters in lower case: PyTorch ignores case when it looks up records.
std::string fold_case(std::string_view name);

}  // namespace cairn::zip
