// A Value as JSON: see docs/formats/dump.md.
#pragma once

#include <string>

#include "cairn/value.h"

#include "core/text/json.h"

namespace cairn::cli {

// Keeps types, values and order. Tensors, arrays and bytes are replaced by their SHA-256.
Json describe_value(const Value& value);

// 64 hexadecimal digits.
std::string sha256(ByteView bytes);

}  // namespace cairn::cli
