// Python's format specification mini-language, for whole numbers, floats and texts:
//
//   [[fill]align][sign]["#"]["0"][width][grouping]["." precision][type]
//
//   align     "<" ">" "=" "^"       sign   "+" "-" " "       grouping   "," "_"
//   type      d b o x X of whole numbers; e E f F g G % of all numbers; s of texts
//
// Not supported, and refused by name: "n" (depends on the locale), "c", "z", and "#" with floats.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cairn/checkpoint/names.h"

namespace cairn {

struct FormatSpec {
  std::string fill = " ";  // one code point
  char align = '\0';       // '\0': texts to the left, numbers to the right
  char sign = '\0';
  bool alternate = false;
  bool zero = false;  // "0" before the width and no fill: zeros go between sign and digits
  std::size_t width = 0;
  char grouping = '\0';
  std::optional<int> precision = std::nullopt;
  char type = '\0';
};

// Throws UsageError, which quotes `spec`, if `spec` is not a format specification.
FormatSpec parse_format_spec(std::string_view spec);

// Throws UsageError if the spec does not fit the type of the value.
std::string format_value(const FormatValue& value, const FormatSpec& spec);

}  // namespace cairn
