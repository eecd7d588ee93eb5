// The name of an object's class, as a person would write it.
#pragma once

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <typeinfo>

namespace cairn {

// "torch::optim::LBFGS".
inline std::string full_class_name(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), &std::free);
  return status == 0 ? text.get() : type.name();
}

// "lab::Monitor<int>" gives "Monitor<int>".
inline std::string without_namespaces(const std::string& full_name) {
  const std::size_t arguments = full_name.find('<');
  const std::size_t colons = full_name.rfind("::", arguments);
  return colons == std::string::npos ? full_name : full_name.substr(colons + 2);
}

// The name without namespaces.
inline std::string class_name(const std::type_info& type) {
  return without_namespaces(full_class_name(type));
}

}  // namespace cairn
