// Numbers among logged values.
#pragma once

#include <optional>

#include "cairn/value.h"

namespace cairn {

// A number, a bool, or the element of a tensor that has one. nullopt for anything else.
std::optional<double> logged_number(const Value& value);

}  // namespace cairn
