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
  char align = '\0';       // '\0': left for texts, right for numbers
  char sign = '\0';
  bool alternate = false;
  bool zero = false;  // "0" before the width, and no fill: numbers fill after their sign
  std::size_t width = 0;
  char grouping = '\0';
  std::optional<int> precision = std::nullopt;
  char type = '\0';
};

// UsageError, quoting `spec`, when it is none.
FormatSpec parse_format_spec(std::string_view spec);

// UsageError when the spec does not fit the kind of value.
std::string format_value(const FormatValue& value, const FormatSpec& spec);

}  // namespace cairn
