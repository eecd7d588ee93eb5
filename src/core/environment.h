// What a program is told from outside.
#pragma once

#include <string>

namespace cairn {

// A variable of the environment; "" when it is not set.
std::string environment(const char* name);

}  // namespace cairn
