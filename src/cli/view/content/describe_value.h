// A Value as JSON: docs/formats/dump.md.
#pragma once

#include <string>

#include "cairn/value.h"

#include "core/text/json.h"

namespace cairn::cli {

// Types, values and order are kept; of tensors, arrays and bytes the SHA-256.
Json describe_value(const Value& value);

// 64 hexadecimal digits.
std::string sha256(ByteView bytes);

}  // namespace cairn::cli
