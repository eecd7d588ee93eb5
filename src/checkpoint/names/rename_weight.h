// How rename_weights() changes the name of one weight.
#pragma once

#include <string>

namespace cairn {

// Returns `name` with `to` in place of the first `from` that is at the beginning of the name or
// after a dot.
std::string rename_weight(const std::string& name, const std::string& from, const std::string& to);

}  // namespace cairn
