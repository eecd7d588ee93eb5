// Environment variables.
#pragma once

#include <initializer_list>
#include <string>

namespace cairn {

// The value of an environment variable; "" if it is not set.
std::string environment(const char* name);

// The first text that is not empty, of an option, a variable of the environment, a default.
std::string first_given(std::initializer_list<std::string> candidates);

}  // namespace cairn
