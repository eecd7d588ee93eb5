// A Value as JSON: docs/formats/dump.md.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "cairn/value.h"

namespace cairn::cli {

// Types, values and order are kept; of tensors, arrays and bytes the SHA-256.
nlohmann::json describe_value(const Value& value);

// 64 hexadecimal digits.
std::string sha256(ByteView bytes);

}  // namespace cairn::cli
