// Whether two formats can make the same name.
#pragma once

#include <optional>
#include <string>

#include "cairn/checkpoint/names.h"

namespace cairn {

// Returns a name that both formats can make, at the same or different moments of a run; nullopt if
// there is no such name. Variables in `dist` have the value that `dist` gives; counters may have
// any value. With format specs the result may be a name that neither format makes: only the
// characters that a counter may be written with are known. Throws UsageError if `a` or `b` is not a
// format string.
std::optional<std::string> shared_name(const NameFormat& a, const NameFormat& b,
                                       const FormatVariables& dist);

}  // namespace cairn
