#include "cli/shell/duration.h"

#include <array>
#include <charconv>
#include <cstdint>
#include <utility>

#include "cairn/error.h"

namespace cairn::cli {
namespace {

constexpr std::array<std::pair<char, std::int64_t>, 5> kUnits = {
    {{'w', 7 * 86400}, {'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}}};
constexpr std::int64_t kMax = std::int64_t{1000} * 366 * 86400;

[[noreturn]] void refuse(const std::string& text) {
  const bool is_number = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  throw UsageError("\"" + text + "\" is no duration" + (is_number ? " (write " + text + "s)" : "") +
                   ": numbers with w, d, h, m or s, such as 7d or 1w12h, less "
                   "than a thousand years in all");
}

}  // namespace

std::chrono::seconds parse_duration(const std::string& text) {
  const char* at = text.data();
  const char* end = at + text.size();
  std::int64_t total = 0;
  do {
    std::int64_t number = 0;
    const auto [unit, error] = std::from_chars(at, end, number);
    if (error != std::errc{} || unit == end || number < 0 || number > kMax) refuse(text);
    std::int64_t seconds = 0;
    for (const auto& [letter, size] : kUnits) {
      if (letter == *unit) seconds = size;
    }
    if (seconds == 0 || number > (kMax - total) / seconds) refuse(text);
    total += number * seconds;
    at = unit + 1;
  } while (at != end);
  return std::chrono::seconds(total);
}

}  // namespace cairn::cli
