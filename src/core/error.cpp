#include "cairn/error.h"

#include <new>

#include "core/text/printable.h"

namespace cairn {

Error::Error(const std::string& message) : std::runtime_error(printable(message)) {}

void Error::add_context(const std::string& doing) noexcept {
  try {
    text_ = printable(doing) + ": " + what();
  } catch (const std::bad_alloc&) {  // the error itself is worth more than its context
  }
}

}  // namespace cairn
