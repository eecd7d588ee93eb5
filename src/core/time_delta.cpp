#include <chrono>

#include "cairn/time.h"

#include "core/add_times.h"
#include "core/divide_floor.h"

namespace cairn {
namespace {

constexpr std::int64_t kMicrosPerSecond = 1'000'000;
constexpr std::int64_t kSecondsPerDay = 86'400;

}  // namespace

TimeDelta TimeDelta::of(std::chrono::microseconds duration) {
  std::int64_t rest = duration.count();
  const std::int64_t days = divide_floor(rest, kSecondsPerDay * kMicrosPerSecond);
  return {.days = days,
          .seconds = static_cast<std::int32_t>(rest / kMicrosPerSecond),
          .microseconds = static_cast<std::int32_t>(rest % kMicrosPerSecond)};
}

std::chrono::microseconds TimeDelta::to_microseconds() const {
  // A negative delta is counted from the following day, because the beginning of the first
  // representable day is itself out of range.
  const bool negative = days < 0;
  const std::int64_t rest = (seconds - (negative ? kSecondsPerDay : 0)) * kMicrosPerSecond;
  std::int64_t total = 0;
  if (__builtin_mul_overflow(days + (negative ? 1 : 0), kSecondsPerDay * kMicrosPerSecond,
                             &total) ||
      __builtin_add_overflow(total, rest + microseconds, &total)) {
    return days < 0 ? std::chrono::microseconds::min() : std::chrono::microseconds::max();
  }
  return std::chrono::microseconds(total);
}

double TimeDelta::total_seconds() const {
  return static_cast<double>(to_microseconds().count()) / static_cast<double>(kMicrosPerSecond);
}

TimeDelta operator+(TimeDelta a, TimeDelta b) {
  std::int64_t micros = std::int64_t{a.microseconds} + b.microseconds;
  std::int64_t seconds = std::int64_t{a.seconds} + b.seconds;
  seconds += divide_floor(micros, kMicrosPerSecond);
  const std::int64_t carry = divide_floor(seconds, kSecondsPerDay);
  return {.days = add_times(add_times(a.days, b.days), carry),
          .seconds = static_cast<std::int32_t>(seconds),
          .microseconds = static_cast<std::int32_t>(micros)};
}

}  // namespace cairn
