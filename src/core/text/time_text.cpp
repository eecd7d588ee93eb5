#include "core/text/time_text.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <system_error>

#include "cairn/error.h"

namespace cairn {
namespace {

// characters; bounds the work, and is enough for any time.
constexpr std::size_t kLongestTime = 400;
constexpr std::size_t kMaxShown = 60;   // characters of a bad text in a message
constexpr int kLargestExponent = 9999;  // larger ones have the same effect

[[noreturn]] void fail(std::string_view text, const std::string& why) {
  std::string shown(text.substr(0, kMaxShown));
  if (shown.size() < text.size()) shown += "...";
  throw UsageError("time string \"" + shown + "\": " + why);
}

const char* const kGrammar =
    "expected a number and a unit (iter, ep, ba, sp, tok, dur, sec) such as \"10ep\" or "
    "\"0.25dur\", or hours (0-23), minutes and seconds (0-59) such as \"1h20m40s\"";

bool is_time_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_blank(text.front()))
    text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back()))
    text.remove_suffix(1);
  return text;
}

// The seconds of "1h20m40s"; nullopt if the text is not a clock or is out of range.
std::optional<std::int64_t> parse_clock(std::string_view text) {
  struct Part {
    char letter;
    int limit;
    int seconds;
  };
  std::int64_t total = 0;
  bool is_any = false;
  for (const Part& part : {Part{'h', 23, 3600}, Part{'m', 59, 60}, Part{'s', 59, 1}}) {
    std::size_t digits = 0;
    while (digits < text.size() && is_time_digit(text[digits]))
      ++digits;
    if (digits == 0 || digits > 2 || digits == text.size()) break;
    if (lower(text[digits]) != part.letter) continue;
    int number = 0;
    std::from_chars(text.data(), text.data() + digits, number);
    if (number > part.limit) return std::nullopt;
    total += std::int64_t{number} * part.seconds;
    is_any = true;
    text.remove_prefix(digits + 1);
  }
  if (!is_any || !text.empty()) return std::nullopt;
  return total;
}

// The parts of a decimal number: its sign, its digits without a point, and a power of ten as a
// factor.
struct Decimal {
  bool negative = false;
  std::string digits;
  int exponent = 0;
};

// Moves digits, with single underscores between them, from `text` to `digits`. Returns false if
// there are none.
bool take_digits(std::string_view& text, std::string& digits) {
  const std::size_t before = digits.size();
  while (!text.empty()) {
    const bool underscore = text[0] == '_' && digits.size() > before && text.size() > 1;
    if (underscore && is_time_digit(text[1])) text.remove_prefix(1);
    if (!is_time_digit(text[0])) break;
    digits += text[0];
    text.remove_prefix(1);
  }
  return digits.size() > before;
}

bool take_sign(std::string_view& text) {
  const bool negative = !text.empty() && text[0] == '-';
  if (negative || (!text.empty() && text[0] == '+')) text.remove_prefix(1);
  return negative;
}

// Accepts what Python's float() accepts, except "inf" and "nan".
std::optional<Decimal> parse_decimal(std::string_view text) {
  Decimal result;
  result.negative = take_sign(text);
  const bool has_whole = take_digits(text, result.digits);
  bool has_fraction = false;
  if (!text.empty() && text[0] == '.') {
    text.remove_prefix(1);
    const std::size_t whole_size = result.digits.size();
    has_fraction = take_digits(text, result.digits);
    result.exponent = -static_cast<int>(result.digits.size() - whole_size);
  }
  if (!has_whole && !has_fraction) return std::nullopt;
  if (!text.empty() && lower(text[0]) == 'e') {
    text.remove_prefix(1);
    const bool negative = take_sign(text);
    std::string digits;
    if (!take_digits(text, digits)) return std::nullopt;
    int exponent = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), exponent);
    if (error != std::errc() || exponent > kLargestExponent) exponent = kLargestExponent;
    result.exponent += negative ? -exponent : exponent;
  }
  if (!text.empty()) return std::nullopt;
  result.digits.erase(0, result.digits.find_first_not_of('0'));  // npos: erases all of them
  return result;
}

// The number as an int64; nullopt if it is not whole. Throws UsageError if it is out of range.
std::optional<std::int64_t> to_count(Decimal number, std::string_view text) {
  if (number.digits.empty()) return 0;
  for (; number.exponent < 0; ++number.exponent) {
    if (number.digits.empty() || number.digits.back() != '0') return std::nullopt;
    number.digits.pop_back();
  }
  // With a larger exponent the number is too large for any count: from_chars() then refuses the
  // empty digits.
  if (number.exponent > 18) number.digits.clear();
  number.digits.append(static_cast<std::size_t>(number.exponent > 18 ? 0 : number.exponent), '0');
  if (number.negative) number.digits.insert(0, 1, '-');
  std::int64_t count = 0;
  const auto [end, error] =
      std::from_chars(number.digits.data(), number.digits.data() + number.digits.size(), count);
  if (error != std::errc()) fail(text, "the number does not fit 64 bits");
  return count;
}

Time to_duration(const Decimal& number, std::string_view text) {
  const std::string digits = (number.negative ? "-" : "") +
                             (number.digits.empty() ? "0" : number.digits) + "e" +
                             std::to_string(number.exponent);
  double fraction = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), fraction);
  if (error != std::errc()) fail(text, "the number is out of range");
  return Time::of_duration(fraction);
}

std::optional<TimeUnit> find_unit(std::string_view text) {
  const auto same = [](char a, char b) { return lower(a) == b; };
  for (std::size_t unit = 0; unit < kTimeUnits.size(); ++unit) {
    const std::string_view letters = kTimeUnits[unit];
    if (std::equal(text.begin(), text.end(), letters.begin(), letters.end(), same)) {
      return static_cast<TimeUnit>(unit);
    }
  }
  return std::nullopt;
}

}  // namespace

Time parse_time(std::string_view text) {
  if (text.size() > kLongestTime) fail(text, "too long");
  const std::string_view trimmed = trim(text);
  if (const auto seconds = parse_clock(trimmed)) return {*seconds, TimeUnit::kSecond};

  std::size_t number_size = trimmed.size();
  while (number_size > 0 && is_letter(trimmed[number_size - 1]))
    --number_size;
  const std::string_view unit_text = trimmed.substr(number_size);
  const auto number = parse_decimal(trim(trimmed.substr(0, number_size)));
  if (!number) fail(text, kGrammar);
  if (unit_text.empty()) fail(text, std::string("the unit is missing; ") + kGrammar);
  const auto unit = find_unit(unit_text);
  if (!unit) fail(text, kGrammar);

  if (*unit == TimeUnit::kDuration) return to_duration(*number, text);
  const auto count = to_count(*number, text);
  if (!count) {
    fail(text, "\"" + std::string(name(*unit)) +
                   "\" counts in whole numbers; only \"dur\" takes a fraction");
  }
  return {*count, *unit};
}

}  // namespace cairn
