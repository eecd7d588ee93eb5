// What describe_bytes() knows by its first bytes.
#pragma once

#include <optional>
#include <string>

#include "cairn/bytes.h"

namespace cairn {

// "a safetensors file"; nullopt for what is no format (empty, zeros) or none that cairn knows.
std::optional<std::string> find_format(ByteView bytes);

}  // namespace cairn
