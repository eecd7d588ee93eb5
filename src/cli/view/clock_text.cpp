#include "cli/view/clock_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <ctime>

namespace cairn::cli {
namespace {

using Convert = std::tm* (*)(const std::time_t*, std::tm*);

std::tm parts_of(std::chrono::system_clock::time_point time, Convert convert) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm parts = {};
  convert(&seconds, &parts);  // all zero for a year that does not fit
  return parts;
}

std::string text_of(const std::tm& parts, const char* between, const char* end) {
  return fmt::format("{:04}-{:02}-{:02}{}{:02}:{:02}:{:02}{}", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, between, parts.tm_hour, parts.tm_min,
                     parts.tm_sec, end);
}

}  // namespace

std::string age_text(std::chrono::seconds age) {
  constexpr std::int64_t kMinute = 60;
  constexpr std::int64_t kHour = 60 * kMinute;
  constexpr std::int64_t kDay = 24 * kHour;
  const std::int64_t seconds = std::max<std::int64_t>(age.count(), 0);
  if (seconds < 2 * kMinute) return fmt::format("{} s", seconds);
  if (seconds < 2 * kHour) return fmt::format("{} min", seconds / kMinute);
  if (seconds < 2 * kDay) return fmt::format("{} h", seconds / kHour);
  return fmt::format("{} d", seconds / kDay);
}

std::string local_time_text(std::chrono::system_clock::time_point time) {
  return text_of(parts_of(time, localtime_r), " ", "");
}

std::string utc_time_text(std::chrono::system_clock::time_point time) {
  return text_of(parts_of(time, gmtime_r), "T", "Z");
}

std::chrono::sys_days local_day(std::chrono::system_clock::time_point time) {
  const std::tm parts = parts_of(time, localtime_r);
  return std::chrono::year(parts.tm_year + 1900) /
         std::chrono::month(static_cast<unsigned>(parts.tm_mon) + 1) /
         std::chrono::day(static_cast<unsigned>(parts.tm_mday));
}

}  // namespace cairn::cli
