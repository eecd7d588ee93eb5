#include "checkpoint/names/format_spec.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "cairn/error.h"

#include "core/text/float_text.h"
#include "core/text/utf8.h"

namespace cairn {
namespace {

// Larger widths make names that no file system accepts.
constexpr std::size_t kLargestWidth = 255;

bool is_one_of(char c, std::string_view set) { return set.find(c) != std::string_view::npos; }

// Removes and returns the next character if it is in `set`, else returns '\0'.
char take(std::string_view& text, std::string_view set) {
  if (text.empty() || !is_one_of(text[0], set)) return '\0';
  const char c = text[0];
  text.remove_prefix(1);
  return c;
}

// Removes and returns a number; nullopt if there is none. Throws UsageError above kLargestWidth.
std::optional<std::size_t> take_number(std::string_view& text) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (end == text.data()) return std::nullopt;
  if (error != std::errc() || number > kLargestWidth) {
    throw UsageError("width and precision may be at most " + std::to_string(kLargestWidth));
  }
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

// Takes fill and alignment. Returns true if the text has a fill.
bool take_fill_and_align(std::string_view& text, FormatSpec& spec) {
  constexpr std::string_view kAligns = "<>=^";
  const std::size_t fill = text.empty() ? 0 : first_code_point(text).size;
  if (fill < text.size() && is_one_of(text[fill], kAligns)) {
    spec.fill = text.substr(0, fill);
    spec.align = text[fill];
    text.remove_prefix(fill + 1);
    return true;
  }
  spec.align = take(text, kAligns);
  return false;
}

// --- Numbers as sign, prefix, digits (which may be grouped) and the rest. ------------------------

struct NumberText {
  bool negative = false;
  std::string prefix = {};
  std::string digits = {};  // before the decimal point
  std::string rest = {};
};

std::string digits_of(std::uint64_t magnitude, int base) {
  std::array<char, 64> buffer;
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), magnitude, base);
  return {buffer.data(), result.ptr};
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  return text;
}

// Puts separators between groups of digits, with zeros in front until `min_width` characters are
// reached. A separator never comes first, so the result may be one character longer.
std::string group_digits(const std::string& digits, const FormatSpec& spec, std::size_t min_width) {
  const std::size_t group = is_one_of(spec.type, "boxX") ? 4 : 3;
  std::string reversed;
  for (std::size_t n = 0; n < digits.size() || reversed.size() < min_width; ++n) {
    if (n > 0 && n % group == 0) reversed += spec.grouping;
    reversed += n < digits.size() ? digits[digits.size() - 1 - n] : '0';
  }
  return {reversed.rbegin(), reversed.rend()};
}

std::string repeat(const std::string& text, std::size_t n) {
  std::string result;
  for (; n > 0; --n) {
    result += text;
  }
  return result;
}

// Pads `left` + `right` to the width. With align "=" the fill goes between the two.
std::string pad(const std::string& left, const std::string& right, const FormatSpec& spec,
                char default_align) {
  const std::size_t size = code_points(left).size() + code_points(right).size();
  const std::size_t missing = spec.width > size ? spec.width - size : 0;
  switch (spec.align != '\0' ? spec.align : default_align) {
    case '<':
      return left + right + repeat(spec.fill, missing);
    case '^':
      return repeat(spec.fill, missing / 2) + left + right +
             repeat(spec.fill, missing - missing / 2);
    case '=':
      return left + repeat(spec.fill, missing) + right;
    default:
      return repeat(spec.fill, missing) + left + right;
  }
}

std::string layout(const NumberText& number, FormatSpec spec) {
  if (spec.zero && spec.align == '\0') spec.align = '=';
  std::string sign = number.negative ? "-" : "";
  if (!number.negative && (spec.sign == '+' || spec.sign == ' ')) sign = spec.sign;
  const std::string left = sign + number.prefix;
  if (spec.grouping == '\0' || number.digits.empty()) {
    return pad(left, number.digits + number.rest, spec, '>');
  }
  const std::size_t others = left.size() + number.rest.size();
  const bool zeros = spec.fill == "0" && spec.align == '=' && spec.width > others;
  return pad(left, group_digits(number.digits, spec, zeros ? spec.width - others : 0) + number.rest,
             spec, '>');
}

// --- Floats -------------------------------------------------------------------------------------

std::string to_text(double value, std::chars_format format, int precision) {
  std::array<char, 640> buffer;  // 309 digits, a point, kLargestWidth + 2 more, an exponent
  const auto result =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, format, precision);
  return {buffer.data(), result.ptr};
}

// Formats like "%g", or like Python without a type, which keeps ".0" and switches to exponents one
// digit earlier.
std::string general(double value, int precision, bool keeps_point) {
  precision = std::max(precision, 1);
  std::string text = to_text(value, std::chars_format::scientific, precision - 1);
  const std::size_t e = text.find('e');
  const int exponent = std::stoi(text.substr(e + 1));
  std::string tail = text.substr(e);
  if (exponent >= -4 && exponent < precision - (keeps_point ? 1 : 0)) {
    text = to_text(value, std::chars_format::fixed, precision - 1 - exponent);
    tail = "";
  } else {
    text.resize(e);
  }
  if (text.find('.') != std::string::npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
  }
  if (keeps_point && tail.empty() && text.find('.') == std::string::npos) text += ".0";
  return text + tail;
}

// Formats |value| by the spec's type and precision.
std::string magnitude_text(double value, const FormatSpec& spec) {
  if (!std::isfinite(value)) {
    return std::string(std::isnan(value) ? "nan" : "inf") + (spec.type == '%' ? "%" : "");
  }
  const int precision = spec.precision.value_or(6);
  switch (spec.type) {
    case 'e':
    case 'E':
      return to_text(value, std::chars_format::scientific, precision);
    case 'f':
    case 'F':
      return to_text(value, std::chars_format::fixed, precision);
    case 'g':
    case 'G':
      return general(value, precision, false);
    case '%':
      return to_text(value * 100, std::chars_format::fixed, precision) + "%";
    default:
      return spec.precision ? general(value, precision, true) : python_float_repr(value);
  }
}

std::string format_float(double value, const FormatSpec& spec) {
  if (spec.alternate) throw UsageError("\"#\" is not supported for floats");
  std::string text = magnitude_text(std::fabs(value), spec);
  if (is_one_of(spec.type, "EFG")) text = upper(text);
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  return layout({.negative = std::signbit(value) && !std::isnan(value),
                 .digits = text.substr(0, digits),
                 .rest = text.substr(digits)},
                spec);
}

std::string format_int(std::int64_t value, const FormatSpec& spec) {
  if (is_one_of(spec.type, "eEfFgG%")) {
    return format_float(static_cast<double>(value), spec);
  }
  if (spec.type == 's') throw UsageError("type \"s\" is for texts, and this is a whole number");
  if (spec.precision) throw UsageError("a whole number has no precision");
  const int base = spec.type == 'b'             ? 2
                   : spec.type == 'o'           ? 8
                   : is_one_of(spec.type, "xX") ? 16
                                                : 10;
  const auto bits = static_cast<std::uint64_t>(value);
  NumberText number = {.negative = value < 0,
                       .digits = digits_of(value < 0 ? 0 - bits : bits, base)};
  if (spec.alternate && base != 10) number.prefix = {'0', spec.type};
  if (spec.type == 'X') number.digits = upper(number.digits);
  return layout(number, spec);
}

std::string format_text(const std::string& text, const FormatSpec& spec) {
  if (spec.type != '\0' && spec.type != 's') {
    throw UsageError(std::string("type \"") + spec.type + "\" is for numbers, and this is a text");
  }
  if (spec.sign != '\0' || spec.alternate || spec.grouping != '\0' || spec.align == '=') {
    throw UsageError("sign, \"#\", grouping and \"=\" are for numbers, and this is a text");
  }
  std::string shown;
  std::string_view rest = text;
  for (int left = spec.precision.value_or(-1); left != 0 && !rest.empty(); --left) {
    const std::size_t size = first_code_point(rest).size;
    shown += rest.substr(0, size);
    rest.remove_prefix(size);
  }
  return pad(shown, "", spec, '<');
}

void check_combination(const FormatSpec& spec) {
  if (spec.grouping != '\0' && is_one_of(spec.type, spec.grouping == ',' ? "boxXs" : "s")) {
    throw UsageError(std::string("\"") + spec.grouping + "\" does not go with type \"" + spec.type +
                     "\"");
  }
}

}  // namespace

FormatSpec parse_format_spec(std::string_view text) {
  FormatSpec spec;
  std::string_view rest = text;
  try {
    const bool has_fill = take_fill_and_align(rest, spec);
    spec.sign = take(rest, "+- ");
    spec.alternate = take(rest, "#") != '\0';
    if (take(rest, "0") != '\0' && !has_fill) {
      spec.zero = true;
      spec.fill = "0";
    }
    spec.width = take_number(rest).value_or(0);
    spec.grouping = take(rest, ",_");
    if (take(rest, ".") != '\0') {
      const auto precision = take_number(rest);
      if (!precision) throw UsageError("the precision is missing");
      spec.precision = static_cast<int>(*precision);
    }
    spec.type = take(rest, "dboxXeEfFgG%s");
    if (!rest.empty()) throw UsageError("\"" + std::string(rest) + "\" is not understood");
    check_combination(spec);
  } catch (UsageError& e) {
    e.add_context("format specification \"" + std::string(text) + "\"");
    throw;
  }
  return spec;
}

std::string format_value(const FormatValue& value, const FormatSpec& spec) {
  if (const auto* number = std::get_if<std::int64_t>(&value)) return format_int(*number, spec);
  if (const auto* text = std::get_if<std::string>(&value)) return format_text(*text, spec);
  if (is_one_of(spec.type, "dboxXs")) {
    throw UsageError(std::string("type \"") + spec.type + "\" is not for floats");
  }
  return format_float(std::get<double>(value), spec);
}

}  // namespace cairn
