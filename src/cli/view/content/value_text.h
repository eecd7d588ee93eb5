// A Value in a few words.
#pragma once

#include <span>
#include <string>

#include "cairn/value.h"

namespace cairn::cli {

// "[16, 8]".
std::string shape_text(std::span<const std::int64_t> shape);

// One line: 'text' as Python would write it, 0.02, True, None, float32 [16, 8], dict of 3. Long
// texts are cut.
std::string value_text(const Value& value);

}  // namespace cairn::cli
