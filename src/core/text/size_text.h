// Numbers of bytes for people.
#pragma once

#include <cstdint>
#include <string>

namespace cairn {

// "512 B", "1.4 KiB", "362 KiB", "9.3 GiB": three significant digits.
std::string size_text(std::uint64_t bytes);

}  // namespace cairn
