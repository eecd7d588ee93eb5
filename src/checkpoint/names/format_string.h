// Python format strings, split into literal text and replacement fields.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cairn/checkpoint/names.h"

namespace cairn {

struct FormatPiece {
  std::string text;  // a literal with "{{" and "}}" unescaped, or a field as written, with braces
  bool is_field = false;
  std::string name = {};  // of the field
  std::string spec = {};  // the text after its ":"
};

// Throws UsageError if the text is not a format string, is longer than a path can be, or uses
// something that names.h lists as refused.
std::vector<FormatPiece> split_format(const NameFormat& format);

// nullptr if no variable has that name.
const FormatValue* find_variable(const FormatVariables& variables, std::string_view name);

// Whether the format has {batch} or another variable that changes in training. Without one, each
// save has the same name as the previous one.
bool has_counter(const NameFormat& format);

// The only name of a format without counters. A variable without a value stays in the name as text.
std::string only_name(const NameFormat& format);

// The length of the leading folders without variables, with their last slash. 0 if there are none.
std::size_t fixed_folders(const NameFormat& format);

// The field's value as text. Throws UsageError, which names the field, if its spec does not fit the
// value.
std::string format_field(const FormatPiece& field, const FormatValue& value);

}  // namespace cairn
