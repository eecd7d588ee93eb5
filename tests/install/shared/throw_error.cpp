#include "throw_error.h"

#include <type_traits>

namespace cairn {
namespace {

template <class E>
[[noreturn]] void throw_one(const std::string& message) {
  if constexpr (std::is_constructible_v<E, std::string>) {
    throw E(message);
  } else if constexpr (std::is_constructible_v<E, std::string, int>) {
    throw E(message, 0);
  } else {
    throw E(message, {});
  }
}

}  // namespace

namespace dist {

void throw_named(const std::string& name) {
#define ERROR_CLASS(Class) \
  if (name == #Class) throw_one<Class>(name);
#include "error_classes.inc"
#undef ERROR_CLASS
}

}  // namespace dist

void throw_error(const std::string& name) { dist::throw_named(name); }

}  // namespace cairn
