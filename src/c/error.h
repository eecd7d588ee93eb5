// Errors across the C interface: an exception becomes a status and a cairn_error.
#pragma once

#include <string>
#include <utility>

#include "cairn/c.h"

namespace cairn {

// Call it in a handler: stores the exception that is being handled. Throws nothing.
cairn_status report_error(cairn_error** error) noexcept;

// Runs `run` for a function of the C interface.
template <class Run>
cairn_status guard_call(cairn_error** error, Run run) noexcept try {
  if (error != nullptr) *error = nullptr;
  run();
  return CAIRN_OK;
} catch (...) {
  return report_error(error);
}

// Throws UsageError if an argument that must not be null is null.
void require(const void* argument, const char* name);

// A copy that cairn_text_free() frees. Throws std::bad_alloc.
char* text_copy(const std::string& text);

}  // namespace cairn
