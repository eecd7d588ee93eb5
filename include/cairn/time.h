// Training time: Composer's Time, TimeUnit and Timestamp (composer/core/time.py).
//
// Time strings are a number and a unit, "10ep", "500ba", "0.25dur", or hours, minutes and seconds,
// "1h20m40s". Two accidents of Composer's parser are errors here: "" and a bare number.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cairn {

// datetime.timedelta, normalised as Python does: 0 <= seconds < 86400, 0 <= microseconds < 10^6.
struct TimeDelta {
  std::int64_t days = 0;
  std::int32_t seconds = 0;
  std::int32_t microseconds = 0;

  static TimeDelta of(std::chrono::microseconds duration);
  std::chrono::microseconds to_microseconds() const;  // saturates past 292,000 years
  double total_seconds() const;
  auto operator<=>(const TimeDelta&) const = default;
};
TimeDelta operator+(TimeDelta a, TimeDelta b);

enum class TimeUnit : std::uint8_t {
  kIteration,
  kEpoch,
  kBatch,
  kSample,
  kToken,
  kDuration,
  kSecond,
};

// "iter", "ep", "ba", "sp", "tok", "dur", "sec".
std::string_view name(TimeUnit unit);

// An amount of training in one unit. Counts are whole numbers; only kDuration (a fraction of the
// whole run) is not.
//
// Arithmetic and comparison need equal units and throw UsageError otherwise; a text or a number on
// the other side is converted first, a number to this Time's unit.
class Time {
 public:
  Time(std::int64_t value, TimeUnit unit);
  static Time of_duration(double fraction);

  // Parses a time string; UsageError, with the grammar, for anything else. Implicit, so that
  // options read like Python: `.max_duration = "10ep"`.
  Time(const char* text);         // NOLINT(google-explicit-constructor)
  Time(const std::string& text);  // NOLINT(google-explicit-constructor)
  explicit Time(std::string_view text);

  static Time epochs(std::int64_t n) { return {n, TimeUnit::kEpoch}; }
  static Time batches(std::int64_t n) { return {n, TimeUnit::kBatch}; }

  TimeUnit unit() const { return unit_; }
  // The count; UsageError for kDuration, whose value is fraction().
  std::int64_t value() const;
  double fraction() const;
  // Either, as a double.
  double number() const;

  std::string to_string() const;  // "5ep", "0.5dur"

  friend bool operator==(const Time& a, const Time& b);
  friend std::partial_ordering operator<=>(const Time& a, const Time& b);
  friend Time operator+(const Time& a, const Time& b);
  friend Time operator-(const Time& a, const Time& b);
  friend Time operator%(const Time& a, const Time& b);  // sign of the divisor, as in Python
  friend Time operator/(const Time& a, double b);       // keeps the unit, truncates toward zero
  friend Time operator*(const Time& a, double b);
  friend Time operator/(const Time& a, const Time& b);  // same unit; gives kDuration
  friend Time operator*(const Time& a, const Time& b);  // one side must be kDuration

 private:
  double number_ = 0;       // kDuration
  std::int64_t value_ = 0;  // every other unit
  TimeUnit unit_;
};

class Value;

// How far training has come. A value object: the to_next_* functions give a new one.
struct Timestamp {
  std::int64_t iteration = 0;
  std::int64_t epoch = 0;
  std::int64_t batch = 0;
  std::int64_t sample = 0;
  std::int64_t token = 0;
  std::int64_t epoch_in_iteration = 0;
  std::int64_t token_in_iteration = 0;
  std::int64_t batch_in_epoch = 0;
  std::int64_t sample_in_epoch = 0;
  std::int64_t token_in_epoch = 0;
  TimeDelta total_wct = {};
  TimeDelta iteration_wct = {};
  TimeDelta epoch_wct = {};
  TimeDelta batch_wct = {};

  // The counter of `unit`, whole seconds of total_wct for kSecond; UsageError for kDuration.
  Time get(TimeUnit unit) const;

  Timestamp to_next_batch(std::int64_t samples, std::int64_t tokens, TimeDelta duration) const;
  Timestamp to_next_epoch() const;
  Timestamp to_next_iteration() const;

  // Composer's 14 keys in Composer's order. from_value() needs the seven that every Composer wrote
  // (epoch, batch, sample, token and the three *_in_epoch) and throws MismatchError naming a
  // missing or wrongly typed one; the others keep their zero.
  Value state_dict() const;
  static Timestamp from_value(const Value& state);

  bool operator==(const Timestamp&) const = default;
};

}  // namespace cairn
