// A name of a weight, as rename_weights() changes it.
#pragma once

#include <string>

namespace cairn {

// `name` with `to` in place of the first `from` that stands at its beginning or after a dot.
std::string renamed(const std::string& name, const std::string& from, const std::string& to);

}  // namespace cairn
