#include "checkpoint/names/format_string.h"

#include <algorithm>

#include "cairn/error.h"

#include "checkpoint/names/format_spec.h"

namespace cairn {
namespace {

constexpr std::size_t kLongestName = 4096;  // PATH_MAX

FormatPiece parse_field(std::string_view inside) {
  const std::size_t colon = std::min(inside.find(':'), inside.size());
  const std::string_view name = inside.substr(0, colon);
  if (name.find_first_of(".[!") != std::string_view::npos) {
    throw UsageError("{" + std::string(inside) +
                     "}: attributes, indices and conversions are not supported");
  }
  return {.text = "{" + std::string(inside) + "}",
          .is_field = true,
          .name = std::string(name),
          .spec = std::string(inside.substr(std::min(colon + 1, inside.size())))};
}

std::vector<FormatPiece> split(std::string_view format) {
  if (format.size() > kLongestName) throw UsageError("it is longer than any path");
  std::vector<FormatPiece> pieces;
  std::string literal;
  const auto end_literal = [&] {
    if (!literal.empty()) pieces.push_back({.text = std::move(literal)});
    literal.clear();
  };
  for (std::size_t i = 0; i < format.size(); ++i) {
    const char c = format[i];
    if (c != '{' && c != '}') {
      literal += c;
    } else if (i + 1 < format.size() && format[i + 1] == c) {
      literal += c;
      ++i;
    } else if (c == '}') {
      throw UsageError("a single \"}\" (write \"}}\" for the character)");
    } else {
      const std::size_t end = format.find_first_of("{}", i + 1);
      if (end == std::string_view::npos) throw UsageError("\"{\" is never closed");
      if (format[end] == '{') throw UsageError("fields inside fields are not supported");
      end_literal();
      pieces.push_back(parse_field(format.substr(i + 1, end - i - 1)));
      i = end;
    }
  }
  end_literal();
  return pieces;
}

}  // namespace

std::vector<FormatPiece> split_format(const NameFormat& format) {
  try {
    return split(format.text());
  } catch (UsageError& e) {
    e.add_context("format \"" + format.text().substr(0, 200) + "\"");
    throw;
  }
}

const FormatValue* find_variable(const FormatVariables& variables, std::string_view name) {
  const auto it = std::find_if(variables.begin(), variables.end(),
                               [&](const auto& variable) { return variable.first == name; });
  return it == variables.end() ? nullptr : &it->second;
}

std::string format_field(const FormatPiece& field, const FormatValue& value) {
  try {
    return format_value(value, parse_format_spec(field.spec));
  } catch (UsageError& e) {
    e.add_context(field.text);
    throw;
  }
}

bool has_counter(const NameFormat& format) {
  const FormatVariables counters = time_variables({});
  return std::ranges::any_of(split_format(format), [&](const FormatPiece& piece) {
    return piece.is_field && find_variable(counters, piece.name) != nullptr;
  });
}

std::size_t fixed_folders(const NameFormat& format) {
  const std::string& text = format.text();
  std::size_t fixed = 0;
  while (fixed < text.size()) {
    const bool is_doubled = fixed + 1 < text.size() && text[fixed + 1] == text[fixed];
    if (text[fixed] == '{' && !is_doubled) break;
    fixed += text[fixed] == '{' ? 2 : 1;
  }
  const std::size_t slash = text.substr(0, fixed).rfind('/');
  return slash == std::string::npos ? 0 : slash + 1;
}

std::string only_name(const NameFormat& format) {
  std::string name;
  for (const FormatPiece& piece : split_format(format)) {
    name += piece.text;
  }
  return name;
}

}  // namespace cairn
