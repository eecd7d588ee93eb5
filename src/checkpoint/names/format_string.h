// Python format strings, split into literal text and replacement fields.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cairn/checkpoint/names.h"

namespace cairn {

struct FormatPiece {
  std::string text;  // literal with "{{" and "}}" undone; a field as it was written, with braces
  bool is_field = false;
  std::string name = {};  // of the field
  std::string spec = {};  // what follows its ":"
};

// UsageError for a text that is no format string, is longer than a path can be, or uses what
// names.h says is refused.
std::vector<FormatPiece> split_format(const NameFormat& format);

// nullptr when there is no variable of that name.
const FormatValue* find_variable(const FormatVariables& variables, std::string_view name);

// Whether {batch}, or another thing that training changes, is in it: without, each save has the
// name of the one before.
bool has_counter(const NameFormat& format);

// The only name of a format without counters. A variable without a value stays in it as text.
std::string only_name(const NameFormat& format);

// The length of the folders at the beginning of the text that have no variable in them. It includes
// their last slash; 0 if there are none.
std::size_t fixed_folders(const NameFormat& format);

// The field's value as text; errors name the field.
std::string format_field(const FormatPiece& field, const FormatValue& value);

}  // namespace cairn
