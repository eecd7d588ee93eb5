// The only conversion from JSON to text for people and scripts. Bytes that are not UTF-8 (for
// example in a file name) are replaced, and no control character remains.
#pragma once

#include <string>

#include "core/text/json_fwd.h"

namespace cairn {

// `indent` is -1 for a single line.
std::string json_text(const Json& value, int indent);
std::string json_text(const OrderedJson& value, int indent);

}  // namespace cairn
