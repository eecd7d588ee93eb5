// Bytes as hexadecimal digits.
#pragma once

#include <string>

#include "cairn/bytes.h"

namespace cairn {

std::string hex(ByteView bytes);  // in lower case

}  // namespace cairn
