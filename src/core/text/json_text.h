// The only way from JSON to text that people and scripts read: bytes that are no UTF-8 (in a file
// name, say) are replaced, and no control character is left in it.
#pragma once

#include <string>

#include "core/text/json_fwd.h"

namespace cairn {

// `indent` is -1 for all in one line.
std::string json_text(const Json& value, int indent);
std::string json_text(const OrderedJson& value, int indent);

}  // namespace cairn
