// Points in time as protocols write them.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace cairn {

using NetTime = std::chrono::system_clock::time_point;

// "Fri, 24 May 2013 00:00:00 GMT".
std::optional<NetTime> parse_http_date(std::string_view text);
// "2013-05-24T00:00:00Z", with or without a fraction of a second. Instead of Z the text may have an
// offset, such as "+01:00".
std::optional<NetTime> parse_iso_time(std::string_view text);
// "20130524T000000Z".
std::string basic_iso_time(NetTime time);
// "Fri, 24 May 2013 00:00:00 GMT".
std::string http_date(NetTime time);

}  // namespace cairn
