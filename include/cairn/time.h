// Training time: Composer's Time, TimeUnit and Timestamp (composer/core/time.py).
//
// A time string is a number and a unit ("10ep", "500ba", "0.25dur"), or hours, minutes and seconds
// ("1h20m40s"). "" and a number without a unit, which Composer's parser accepts by accident, are
// errors here.
//
//   Time max = "10ep";
//   if (state.timestamp < max) ...            // compares the counter of max's unit
//   Time half = max * "0.5dur"_time;          // 5ep
#pragma once

#include <chrono>
#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>

#include "cairn/export.h"

namespace CAIRN_PUBLIC cairn {

// Python's datetime.timedelta, normalised as Python does: 0 <= seconds < 86400, 0 <= microseconds <
// 10^6. Checkpoints hold wall-clock times in this form.
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

enum class TimeUnit : std::uint8_t {  // in the order of operator""_time's table
  kIteration,                         // of State::iteration_length: a group of epochs or tokens
  kEpoch,                             // one pass over the train loader
  kBatch,                             // an optimizer step
  kSample,
  kToken,     // as DataSpec::get_num_tokens_in_batch counts them
  kDuration,  // a fraction of max_duration
  kSecond,    // of training by the clock: for intervals, not for max_duration
};

// "iter", "ep", "ba", "sp", "tok", "dur", "sec".
std::string_view name(TimeUnit unit);

template <class T>
concept Number = std::integral<T> || std::floating_point<T>;

// An amount of training in one unit: a length (max_duration), an interval, or a point in time (a
// milestone). Counts are whole numbers. Only a kDuration (a fraction of the whole run) is not
// whole.
//
// Arithmetic and comparison need equal units. A text on the other side is parsed first; a number on
// the right has this Time's unit. Throws UsageError for unequal units, a fraction of a counted
// unit, a division by zero, and a result outside int64.
class Time {
 public:
  constexpr Time(std::int64_t value, TimeUnit unit)
      : number_(unit == TimeUnit::kDuration ? static_cast<double>(value) : 0),
        value_(unit == TimeUnit::kDuration ? 0 : value),
        unit_(unit) {}
  Time(std::floating_point auto value, TimeUnit unit) = delete;  // of_duration() for a fraction
  // A fraction of the whole run: 0.25 is "0.25dur". Throws UsageError for an infinity or a NaN.
  static Time of_duration(double fraction);

  // Parses a time string. Throws UsageError, with the grammar, for anything else. Implicit, so that
  // options read like Python: `.max_duration = "10ep"`.
  Time(const char* text);         // NOLINT(google-explicit-constructor)
  Time(const std::string& text);  // NOLINT(google-explicit-constructor)
  explicit Time(std::string_view text);
  Time(std::nullptr_t) = delete;

  static Time epochs(std::int64_t n) { return {n, TimeUnit::kEpoch}; }
  static Time batches(std::int64_t n) { return {n, TimeUnit::kBatch}; }

  TimeUnit unit() const { return unit_; }
  // The count. Throws UsageError for kDuration, whose value is fraction().
  std::int64_t value() const;
  double fraction() const;  // UsageError for every other unit
  // The count or the fraction as a double: exact for counts below 2^53.
  double number() const;

  // "5ep", "0.5dur": the constructor from text parses it.
  std::string to_string() const;

  // Between times of one unit, or a time and a text: `time + "2ep"`.
  friend bool operator==(const Time& a, const Time& b);
  friend std::partial_ordering operator<=>(const Time& a, const Time& b);
  friend Time operator+(const Time& a, const Time& b);
  friend Time operator-(const Time& a, const Time& b);
  friend Time operator%(const Time& a, const Time& b);  // sign of the divisor, as in Python
  friend Time operator/(const Time& a, const Time& b);  // same unit; gives kDuration
  friend Time operator*(const Time& a, const Time& b);  // one side must be kDuration

  // With a number on the right, in this Time's unit: `time >= 10`.
  template <Number T>
  friend bool operator==(const Time& a, T b) {
    return a == a.with_number(b);
  }
  template <Number T>
  friend std::partial_ordering operator<=>(const Time& a, T b) {
    return a <=> a.with_number(b);
  }
  template <Number T>
  friend Time operator+(const Time& a, T b) {
    return a + a.with_number(b);
  }
  template <Number T>
  friend Time operator-(const Time& a, T b) {
    return a - a.with_number(b);
  }
  template <Number T>
  friend Time operator%(const Time& a, T b) {
    return a % a.with_number(b);
  }
  template <Number T>
  friend Time operator*(const Time& a, T b) {  // keeps the unit, truncates toward zero
    return a.scaled_by(b);
  }
  template <Number T>
  friend Time operator/(const Time& a, T b) {  // keeps the unit, truncates toward zero
    return a.divided_by(b);
  }

 private:
  friend consteval Time operator""_time(const char* text, std::size_t size);
  constexpr explicit Time(double fraction) : number_(fraction), unit_(TimeUnit::kDuration) {}

  Time with_number(std::integral auto n) const { return {static_cast<std::int64_t>(n), unit_}; }
  Time with_number(double n) const;
  Time scaled_by(double factor) const;
  Time divided_by(double divisor) const;

  double number_ = 0;       // kDuration
  std::int64_t value_ = 0;  // every other unit
  TimeUnit unit_;
};

// "10ep"_time, "0.25dur"_time: a number and a unit in lower case, checked by the compiler. No
// exponent, no hours and minutes, at most 15 digits.
consteval Time operator""_time(const char* text, std::size_t size) {
  constexpr std::string_view kUnits[] = {"iter", "ep", "ba", "sp", "tok", "dur", "sec"};
  std::int64_t digits = 0;
  double scale = 1;
  std::size_t at = 0;
  bool has_point = false;
  for (; at < size && (text[at] == '.' || (text[at] >= '0' && text[at] <= '9')); ++at) {
    if (text[at] == '.') {
      if (has_point) throw std::invalid_argument("a time literal has one decimal point");
      has_point = true;
    } else {
      digits = digits * 10 + (text[at] - '0');
      if (has_point) scale *= 10;
    }
  }
  const std::size_t count = at - (has_point ? 1 : 0);
  if (count < 1 || count > 15) {
    throw std::invalid_argument("a time literal is 1 to 15 digits and a unit");
  }
  for (std::size_t unit = 0; unit < std::size(kUnits); ++unit) {
    if (std::string_view(text + at, size - at) != kUnits[unit]) continue;
    // Both are exact below 2^53, so the quotient is the double nearest to the decimal.
    if (kUnits[unit] == "dur") return Time(static_cast<double>(digits) / scale);
    if (has_point) throw std::invalid_argument("only \"dur\" takes a fraction");
    return {digits, static_cast<TimeUnit>(unit)};
  }
  throw std::invalid_argument("a time literal ends in iter, ep, ba, sp, tok, dur or sec");
}

class Value;

// How far training has come. A value type: the to_next_* functions return a new Timestamp.
// State::timestamp is the timestamp of the run. A checkpoint holds it, and the checkpoint's file is
// named by it.
//
// All counters count what is finished: `batch` is 0 during the first batch, and 1 in that batch's
// batch_end.
struct Timestamp {
  // Since the start of the run.
  std::int64_t iteration = 0;
  std::int64_t epoch = 0;
  std::int64_t batch = 0;
  std::int64_t sample = 0;
  std::int64_t token = 0;
  // Since the start of the current iteration or epoch.
  std::int64_t epoch_in_iteration = 0;
  std::int64_t token_in_iteration = 0;
  std::int64_t batch_in_epoch = 0;
  std::int64_t sample_in_epoch = 0;
  std::int64_t token_in_epoch = 0;
  // Wall-clock time of training alone: without evaluation, and without the time between a save and
  // the resume from it. batch_wct is the time of the last batch.
  TimeDelta total_wct = {};
  TimeDelta iteration_wct = {};
  TimeDelta epoch_wct = {};
  TimeDelta batch_wct = {};

  // The counter of `unit`; for kSecond, whole seconds of total_wct. Throws UsageError for
  // kDuration.
  Time get(TimeUnit unit) const;

  // The timestamp after one more batch of this many samples and tokens, or after the end of the
  // epoch or iteration. At the end of an epoch or iteration, the *_in_* counters of that epoch or
  // iteration start again at 0.
  Timestamp to_next_batch(std::int64_t samples, std::int64_t tokens, TimeDelta duration) const;
  Timestamp to_next_epoch() const;
  Timestamp to_next_iteration() const;

  // Composer's 14 keys in Composer's order. from_value() needs the seven that every Composer
  // version wrote: epoch, batch, sample, token and the three *_in_epoch. from_value() throws
  // MismatchError naming a missing or wrongly typed key of these seven. The other keys default to
  // 0.
  Value state_dict() const;
  static Timestamp from_value(const Value& state);

  bool operator==(const Timestamp&) const = default;

  // Compares the counter of the time's unit: `timestamp < "10ep"`.
  friend bool operator==(const Timestamp& a, const Time& b) { return a.get(b.unit()) == b; }
  friend std::partial_ordering operator<=>(const Timestamp& a, const Time& b) {
    return a.get(b.unit()) <=> b;
  }
};

}  // namespace cairn
