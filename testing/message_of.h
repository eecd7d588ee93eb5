// The message of an error, for tests of messages.
#pragma once

#include <string>

#include "cairn/error.h"

namespace cairn::testing {

// The message of the E that the call throws. Other errors pass through.
template <class E = Error, class Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const E& e) {
    return e.what();
  }
  return "nothing was thrown";
}

}  // namespace cairn::testing
