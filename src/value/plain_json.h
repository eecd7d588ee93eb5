// A Value as simple JSON for scripts: 8, "fp32", [0.9, 0.95]. Unlike describe_value(), it does not
// distinguish ints from floats, or tuples from lists.
#pragma once

#include <cstdint>

#include "cairn/value.h"

#include "core/text/json_fwd.h"

namespace cairn {

// How to write values that JSON does not have.
enum class NoJson : std::uint8_t {
  // NaN and the infinities become "nan", "inf", "-inf". Durations become seconds, complex numbers
  // pairs, bytes {"bytes": size}. Tensors and arrays become {"dtype", "shape"}. A tensor of at most
  // a thousand elements also has "elements", flat.
  kDescribed,
  kNull,
};
Json plain_json(const Value& value, NoJson no_json = NoJson::kDescribed);

}  // namespace cairn
