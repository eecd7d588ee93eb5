#include "cairn/error.h"

#include "core/printable.h"

namespace cairn {

Error::Error(const std::string& message)
    : std::runtime_error(printable(message)), text_(std::runtime_error::what()) {}

void Error::add_context(const std::string& doing) { text_ = printable(doing) + ": " + text_; }

}  // namespace cairn
