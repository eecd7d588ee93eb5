// Catches each error of cairn by its type, when it was thrown inside the shared library.
#include <cstdio>
#include <exception>
#include <type_traits>
#include <typeinfo>

#include "throw_error.h"

namespace cairn::dist {  // where the names of all errors are known
namespace {

template <class E>
bool is_caught(const char* name) {
  try {
    throw_error(name);
    std::printf("%s: the library does not know it\n", name);
  } catch (const E& error) {
    const bool is_root = dynamic_cast<const Error*>(&static_cast<const std::exception&>(error));
    if (typeid(error) == typeid(E) && is_root == std::is_base_of_v<Error, E> &&
        error.what() == std::string(name)) {
      return true;
    }
    std::printf("%s: caught as %s: %s\n", name, typeid(error).name(), error.what());
  } catch (const std::exception& error) {
    std::printf("%s: only caught as std::exception: %s\n", name, error.what());
  }
  return false;
}

int count_failures() {
  int failures = 0;
#define ERROR_CLASS(Class) failures += !is_caught<Class>(#Class);
#include "error_classes.inc"
#undef ERROR_CLASS
  return failures;
}

}  // namespace
}  // namespace cairn::dist

int main() { return cairn::dist::count_failures(); }
