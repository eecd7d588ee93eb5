// The name of an object's class, as its author wrote it.
#pragma once

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <typeinfo>

namespace cairn {

// "lab::Monitor<int>" -> "Monitor<int>"; "(anonymous namespace)::Monitor" -> "Monitor".
inline std::string class_name(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, decltype(&free)> text(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), &free);
  std::string full = status == 0 ? text.get() : type.name();
  const std::size_t arguments = full.find('<');
  const std::size_t colons = full.rfind("::", arguments);
  return colons == std::string::npos ? full : full.substr(colons + 2);
}

}  // namespace cairn
