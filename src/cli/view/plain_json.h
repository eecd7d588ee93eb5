// A Value as the JSON that a script wants: 8, "fp32", [0.9, 0.95]. Unlike describe_value() it does
// not tell an int from a float, nor a tuple from a list.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "cairn/value.h"

namespace cairn::cli {

// NaN and the infinities are "nan", "inf", "-inf"; durations are seconds, complex numbers pairs,
// bytes
// {"bytes": size}; tensors and arrays are {"dtype", "shape"}, and "elements", flat, when a tensor
// has at most a thousand.
nlohmann::json plain_json(const Value& value);

}  // namespace cairn::cli
