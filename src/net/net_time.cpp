#include "net/net_time.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>

namespace cairn {
namespace {

namespace chrono = std::chrono;

constexpr std::array<std::string_view, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                      "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
constexpr std::array<std::string_view, 7> kDays = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};

std::optional<int> digits(std::string_view text, std::size_t offset, std::size_t count) {
  if (offset + count > text.size()) return std::nullopt;
  int value = 0;
  const char* const end = text.data() + offset + count;
  const auto [stopped, error] = std::from_chars(text.data() + offset, end, value);
  return error == std::errc() && stopped == end && value >= 0 ? std::optional(value) : std::nullopt;
}

struct DateFields {
  std::optional<int> year, month, day, hour, minute, second;
  chrono::minutes zone{0};  // how far local time is ahead of UTC
};

std::optional<NetTime> time_of(const DateFields& f) {
  if (!f.year || !f.month || !f.day || !f.hour || !f.minute || !f.second) return std::nullopt;
  const chrono::year_month_day date{chrono::year(*f.year), chrono::month(unsigned(*f.month)),
                                    chrono::day(unsigned(*f.day))};
  if (!date.ok() || *f.hour > 23 || *f.minute > 59 || *f.second > 60) return std::nullopt;
  const chrono::sys_seconds whole = chrono::sys_days(date) + chrono::hours(*f.hour) +
                                    chrono::minutes(*f.minute) + chrono::seconds(*f.second) -
                                    f.zone;
  // NetTime counts nanoseconds and ends in the year 2262, but a key's expiry date may be later.
  return std::clamp(whole, chrono::ceil<chrono::seconds>(NetTime::min()),
                    chrono::floor<chrono::seconds>(NetTime::max()));
}

// Parses what follows the seconds: an optional fraction, then "Z", "+01:00" or "-0330".
std::optional<chrono::minutes> zone_in(std::string_view text) {
  if (text.starts_with('.')) {
    text.remove_prefix(std::min(text.find_first_not_of("0123456789", 1), text.size()));
  }
  if (text == "Z") return chrono::minutes(0);
  const bool has_colon = text.size() == 6 && text[3] == ':';
  if ((!has_colon && text.size() != 5) || (text[0] != '+' && text[0] != '-')) return std::nullopt;
  const auto hours = digits(text, 1, 2);
  const auto minutes = digits(text, has_colon ? 4 : 3, 2);
  if (!hours || !minutes || *hours > 23 || *minutes > 59) return std::nullopt;
  const chrono::minutes zone = chrono::hours(*hours) + chrono::minutes(*minutes);
  return text[0] == '-' ? -zone : zone;
}

struct Broken {
  chrono::year_month_day date;
  chrono::hh_mm_ss<chrono::seconds> time;
  unsigned weekday;
};

Broken broken(NetTime time) {
  const auto day = chrono::floor<chrono::days>(time);
  return {chrono::year_month_day(day),
          chrono::hh_mm_ss(chrono::floor<chrono::seconds>(time) - chrono::sys_seconds(day)),
          chrono::weekday(day).c_encoding()};
}

}  // namespace

std::optional<NetTime> parse_http_date(std::string_view text) {
  if (text.size() != 29 || text.substr(25) != " GMT") return std::nullopt;
  DateFields fields = {.year = digits(text, 12, 4),
                       .month = std::nullopt,
                       .day = digits(text, 5, 2),
                       .hour = digits(text, 17, 2),
                       .minute = digits(text, 20, 2),
                       .second = digits(text, 23, 2)};
  for (std::size_t i = 0; i < kMonths.size(); ++i) {
    if (text.substr(8, 3) == kMonths[i]) fields.month = static_cast<int>(i + 1);
  }
  return time_of(fields);
}

std::optional<NetTime> parse_iso_time(std::string_view text) {
  if (text.size() < 20 || text[10] != 'T') return std::nullopt;
  const auto zone = zone_in(text.substr(19));
  if (!zone) return std::nullopt;
  return time_of({.year = digits(text, 0, 4),
                  .month = digits(text, 5, 2),
                  .day = digits(text, 8, 2),
                  .hour = digits(text, 11, 2),
                  .minute = digits(text, 14, 2),
                  .second = digits(text, 17, 2),
                  .zone = *zone});
}

std::string basic_iso_time(NetTime time) {
  const Broken b = broken(time);
  std::array<char, 40> text;
  std::snprintf(text.data(), text.size(), "%04d%02u%02uT%02d%02d%02dZ", int(b.date.year()),
                unsigned(b.date.month()), unsigned(b.date.day()), int(b.time.hours().count()),
                int(b.time.minutes().count()), int(b.time.seconds().count()));
  return text.data();
}

std::string http_date(NetTime time) {
  const Broken b = broken(time);
  std::array<char, 60> text;
  std::snprintf(
      text.data(), text.size(), "%.3s, %02u %.3s %04d %02d:%02d:%02d GMT", kDays[b.weekday].data(),
      unsigned(b.date.day()), kMonths[unsigned(b.date.month()) - 1].data(), int(b.date.year()),
      int(b.time.hours().count()), int(b.time.minutes().count()), int(b.time.seconds().count()));
  return text.data();
}

}  // namespace cairn
