// A Value as the JSON that a script wants: 8, "fp32", [0.9, 0.95]. Unlike describe_value() it does
// not tell an int from a float, nor a tuple from a list.
#pragma once

#include <cstdint>

#include "cairn/value.h"

#include "core/text/json_fwd.h"

namespace cairn {

// What becomes of values that JSON does not have.
enum class NoJson : std::uint8_t {
  // NaN and the infinities are "nan", "inf", "-inf"; durations are seconds, complex numbers pairs,
  // bytes {"bytes": size}; tensors and arrays are {"dtype", "shape"}, and "elements", flat, when a
  // tensor has at most a thousand.
  kDescribed,
  kNull,
};
Json plain_json(const Value& value, NoJson no_json = NoJson::kDescribed);

}  // namespace cairn
