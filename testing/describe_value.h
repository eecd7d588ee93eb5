// A Value as JSON, in the form of the golden files' descriptions (tests/data/README.md).
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "cairn/value.h"

namespace cairn::testing {

// Types, values and order are kept; of tensors, arrays and bytes the SHA-256.
nlohmann::json describe_value(const Value& value);

// 64 hexadecimal digits.
std::string sha256(ByteView bytes);

}  // namespace cairn::testing
