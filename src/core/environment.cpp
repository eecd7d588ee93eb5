#include "core/environment.h"

#include <cstdlib>

namespace cairn {

std::string environment(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return value != nullptr ? value : "";
}

}  // namespace cairn
