#include "checkpoint/names/position_in_name.h"

#include <charconv>
#include <string_view>

namespace cairn {
namespace {

bool is_decimal_digit(char c) { return c >= '0' && c <= '9'; }
bool is_ascii_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Reads "<word><number>" at `at` and moves `at` to its end. For other text: nullopt, and `at`
// stays.
std::optional<std::int64_t> read_counter(std::string_view text, std::string_view word,
                                         std::size_t& at) {
  if (text.substr(at, word.size()) != word) return std::nullopt;
  const std::string_view rest = text.substr(at + word.size());
  if (rest.empty() || !is_decimal_digit(rest.front())) return std::nullopt;
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  if (error != std::errc()) return std::nullopt;
  at += word.size() + static_cast<std::size_t>(end - rest.data());
  return number;
}

}  // namespace

std::optional<NamePosition> position_in_name(const std::string& name) {
  for (std::size_t begin = name.find("ep"); begin != std::string::npos;
       begin = name.find("ep", begin + 1)) {
    if (begin > 0 && (is_ascii_letter(name[begin - 1]) || is_decimal_digit(name[begin - 1])))
      continue;
    std::size_t at = begin;
    const auto epoch = read_counter(name, "ep", at);
    const auto batch = epoch ? read_counter(name, "-ba", at) : std::nullopt;
    if (!batch || (at < name.size() && is_ascii_letter(name[at]))) continue;
    NamePosition found = {
        .epoch = *epoch, .batch = *batch, .form = name.substr(0, begin) + "ep#-ba#"};
    if (read_counter(name, "-rank", at)) found.form += "-rank#";
    found.form += name.substr(at);
    return found;
  }
  return std::nullopt;
}

}  // namespace cairn
