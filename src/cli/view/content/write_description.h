// describe_value() of an object of any size: what a container holds is written as it is met, so
// that the whole text is never in memory.
#pragma once

#include <ostream>

#include "cairn/value.h"

namespace cairn::cli {

void write_description(const Value& value, std::ostream& out);

}  // namespace cairn::cli
