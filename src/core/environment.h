// Environment variables.
#pragma once

#include <string>

namespace cairn {

// The value of an environment variable; "" if it is not set.
std::string environment(const char* name);

}  // namespace cairn
