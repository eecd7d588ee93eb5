// Times of day as text.
#pragma once

#include <chrono>
#include <string>

namespace cairn::cli {

// "2026-11-20 10:02:11" in local time, for people.
std::string local_time_text(std::chrono::system_clock::time_point time);

// "2026-11-20T10:02:11Z", for programs.
std::string utc_time_text(std::chrono::system_clock::time_point time);

// "12 s", "3 min", "2 h", "5 d": how long ago something was, for people. Negative durations are 0.
std::string age_text(std::chrono::seconds age);

// The calendar day in local time.
std::chrono::sys_days local_day(std::chrono::system_clock::time_point time);

}  // namespace cairn::cli
