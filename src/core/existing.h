// The error of a write that may not replace what is there.
#pragma once

#include <string>

#include "cairn/error.h"

namespace cairn {

// `name`: what exists, as a user is told.
[[noreturn]] inline void refuse_existing(const std::string& name) {
  throw AlreadyExistsError(name +
                           " exists already: choose another name, or allow overwriting (the option "
                           "overwrite, --overwrite of the tool, save_overwrite of a Trainer)");
}

}  // namespace cairn
