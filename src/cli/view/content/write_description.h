// describe_value() for an object of any size. The items of a container are written one by one, so
// that the whole text is never in memory.
#pragma once

#include <ostream>

#include "cairn/value.h"

namespace cairn::cli {

void write_description(const Value& value, std::ostream& out);

}  // namespace cairn::cli
