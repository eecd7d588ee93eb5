// Whether the names of two formats can be one.
#pragma once

#include <optional>
#include <string>

#include "cairn/checkpoint/names.h"

namespace cairn {

// A name that `a` makes at one moment of a run and `b` at another or the same; nullopt when there
// is none. Variables in `dist` have their value there; counters may have any. With format specs it
// errs by finding names that are none: what a counter is written as is known only by its
// characters. UsageError for what is no format string.
std::optional<std::string> shared_name(const NameFormat& a, const NameFormat& b,
                                       const FormatVariables& dist);

}  // namespace cairn
