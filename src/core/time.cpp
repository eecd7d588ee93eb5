#include "cairn/time.h"

#include <cmath>

#include "cairn/error.h"
#include "cairn/export.h"

#include "core/add_times.h"
#include "core/text/float_text.h"
#include "core/text/time_text.h"

namespace cairn {
namespace {

// Doubles in [-2^63, 2^63) fit an int64 when truncated.
constexpr double kInt64End = 9223372036854775808.0;

[[noreturn]] void out_of_range(std::string_view what) {
  throw UsageError(std::string(what) + ": the result does not fit 64 bits");
}

std::int64_t truncate(double number) {
  if (!(number >= -kInt64End && number < kInt64End)) out_of_range("scaling a time");
  return static_cast<std::int64_t>(number);
}

bool is_whole(double number) { return number == std::trunc(number) && std::fabs(number) < 1e15; }

void check_same_unit(const Time& a, const Time& b, std::string_view doing) {
  if (a.unit() == b.unit()) return;
  throw UsageError("cannot " + std::string(doing) + " " + a.to_string() + " and " + b.to_string() +
                   ": their units differ");
}

[[noreturn]] void divided_by_zero(const Time& a) {
  throw UsageError("cannot divide " + a.to_string() + " by zero");
}

}  // namespace

std::string_view name(TimeUnit unit) {
  const auto at = static_cast<std::size_t>(unit);
  return at < kTimeUnits.size() ? kTimeUnits[at] : "?";
}

Time Time::of_duration(double fraction) {
  if (!std::isfinite(fraction)) {
    throw UsageError("a duration must be a finite number, found " + python_float_repr(fraction));
  }
  return Time(fraction);
}

Time::Time(const char* text) : Time(std::string_view(text == nullptr ? "" : text)) {}
Time::Time(const std::string& text) : Time(std::string_view(text)) {}
Time::Time(std::string_view text) : Time(parse_time(text)) {}

std::int64_t Time::value() const {
  if (unit_ == TimeUnit::kDuration) {
    throw UsageError(to_string() + " is a fraction, not a count; ask for fraction()");
  }
  return value_;
}

double Time::fraction() const {
  if (unit_ != TimeUnit::kDuration) {
    throw UsageError(to_string() + " is a count, not a fraction of the run; ask for value()");
  }
  return number_;
}

double Time::number() const {
  return unit_ == TimeUnit::kDuration ? number_ : static_cast<double>(value_);
}

std::string Time::to_string() const {
  const std::string number =
      unit_ == TimeUnit::kDuration ? python_float_repr(number_) : std::to_string(value_);
  return number + std::string(name(unit_));
}

Time Time::with_number(double n) const {
  if (unit_ == TimeUnit::kDuration) return of_duration(n);
  if (n != std::trunc(n)) {
    throw UsageError(python_float_repr(n) + " is no whole number, and " + std::string(name(unit_)) +
                     " counts in whole numbers");
  }
  return {truncate(n), unit_};
}

// Only the class declares these, so its namespace does not make them public.
CAIRN_PUBLIC bool operator==(const Time& a, const Time& b) { return std::is_eq(a <=> b); }

CAIRN_PUBLIC std::partial_ordering operator<=>(const Time& a, const Time& b) {
  check_same_unit(a, b, "compare");
  if (a.unit_ == TimeUnit::kDuration) return a.number_ <=> b.number_;
  return a.value_ <=> b.value_;
}

CAIRN_PUBLIC Time operator+(const Time& a, const Time& b) {
  check_same_unit(a, b, "add");
  if (a.unit_ == TimeUnit::kDuration) return Time::of_duration(a.number_ + b.number_);
  return {add_times(a.value_, b.value_), a.unit_};
}

CAIRN_PUBLIC Time operator-(const Time& a, const Time& b) {
  check_same_unit(a, b, "subtract");
  if (a.unit_ == TimeUnit::kDuration) return Time::of_duration(a.number_ - b.number_);
  std::int64_t difference = 0;
  if (__builtin_sub_overflow(a.value_, b.value_, &difference)) out_of_range("subtracting times");
  return {difference, a.unit_};
}

CAIRN_PUBLIC Time operator%(const Time& a, const Time& b) {
  check_same_unit(a, b, "divide");
  if (b.number() == 0) divided_by_zero(a);
  if (a.unit_ == TimeUnit::kDuration) {
    const double rest = std::fmod(a.number_, b.number_);
    const bool other_sign = rest != 0 && std::signbit(rest) != std::signbit(b.number_);
    return Time::of_duration(other_sign ? rest + b.number_ : rest);
  }
  if (b.value_ == -1) return {0, a.unit_};  // INT64_MIN % -1 traps
  const std::int64_t rest = a.value_ % b.value_;
  const bool other_sign = rest != 0 && (rest < 0) != (b.value_ < 0);
  return {other_sign ? rest + b.value_ : rest, a.unit_};
}

CAIRN_PUBLIC Time operator/(const Time& a, const Time& b) {
  check_same_unit(a, b, "divide");
  if (b.number() == 0) divided_by_zero(a);
  return Time::of_duration(a.number() / b.number());
}

CAIRN_PUBLIC Time operator*(const Time& a, const Time& b) {
  if (a.unit_ == TimeUnit::kDuration) return b * a.number_;
  if (b.unit_ == TimeUnit::kDuration) return a * b.number_;
  throw UsageError("cannot multiply " + a.to_string() + " by " + b.to_string() +
                   ": one of them must be a duration");
}

Time Time::scaled_by(double factor) const {
  if (unit_ == TimeUnit::kDuration) return of_duration(number_ * factor);
  if (!is_whole(factor)) return {truncate(static_cast<double>(value_) * factor), unit_};
  std::int64_t product = 0;  // exact, even above 2^53
  if (__builtin_mul_overflow(value_, static_cast<std::int64_t>(factor), &product)) {
    out_of_range("scaling a time");
  }
  return {product, unit_};
}

Time Time::divided_by(double divisor) const {
  if (divisor == 0) divided_by_zero(*this);
  if (unit_ == TimeUnit::kDuration) return of_duration(number_ / divisor);
  if (!is_whole(divisor)) return {truncate(static_cast<double>(value_) / divisor), unit_};
  if (divisor == -1) return scaled_by(-1);  // INT64_MIN / -1 traps
  return {value_ / static_cast<std::int64_t>(divisor), unit_};
}

}  // namespace cairn
