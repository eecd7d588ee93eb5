// The class of an error by name, for programs in other languages.
#pragma once

#include <exception>
#include <string_view>

namespace cairn {

// The name of the error's class in cairn/error.h: "CorruptError". "Error" for an error of no such
// class.
std::string_view error_class(const std::exception& error);

}  // namespace cairn
