#include <chrono>

#include "cairn/error.h"
#include "cairn/time.h"
#include "cairn/value.h"

#include "core/add_times.h"
#include "value/timestamp_fields.h"

namespace cairn {
namespace {

[[noreturn]] void throw_mismatch(const std::string& key, const std::string& expected,
                                 const std::string& found) {
  throw MismatchError("timestamp: \"" + key + "\": expected " + expected + ", found " + found);
}

}  // namespace

Time Timestamp::get(TimeUnit unit) const {
  switch (unit) {
    case TimeUnit::kIteration:
      return {iteration, unit};
    case TimeUnit::kEpoch:
      return {epoch, unit};
    case TimeUnit::kBatch:
      return {batch, unit};
    case TimeUnit::kSample:
      return {sample, unit};
    case TimeUnit::kToken:
      return {token, unit};
    case TimeUnit::kSecond:
      return {std::chrono::duration_cast<std::chrono::seconds>(total_wct.to_microseconds()).count(),
              unit};
    case TimeUnit::kDuration:
      break;
  }
  throw UsageError("a timestamp has no \"dur\": the fraction of a run depends on its max_duration");
}

Timestamp Timestamp::to_next_batch(std::int64_t samples, std::int64_t tokens,
                                   TimeDelta duration) const {
  Timestamp next = *this;
  next.batch = add_times(batch, 1);
  next.batch_in_epoch = add_times(batch_in_epoch, 1);
  next.sample = add_times(sample, samples);
  next.sample_in_epoch = add_times(sample_in_epoch, samples);
  next.token = add_times(token, tokens);
  next.token_in_iteration = add_times(token_in_iteration, tokens);
  next.token_in_epoch = add_times(token_in_epoch, tokens);
  next.total_wct = total_wct + duration;
  next.iteration_wct = iteration_wct + duration;
  next.epoch_wct = epoch_wct + duration;
  next.batch_wct = duration;
  return next;
}

Timestamp Timestamp::to_next_epoch() const {
  Timestamp next = *this;
  next.epoch = add_times(epoch, 1);
  next.epoch_in_iteration = add_times(epoch_in_iteration, 1);
  next.batch_in_epoch = next.sample_in_epoch = next.token_in_epoch = 0;
  next.epoch_wct = next.batch_wct = {};
  return next;
}

Timestamp Timestamp::to_next_iteration() const {
  Timestamp next = *this;
  next.iteration = add_times(iteration, 1);
  next.epoch_in_iteration = next.token_in_iteration = 0;
  next.batch_in_epoch = next.sample_in_epoch = next.token_in_epoch = 0;
  next.iteration_wct = next.epoch_wct = next.batch_wct = {};
  return next;
}

Value Timestamp::state_dict() const {
  Dict state;
  for (const auto& counter : kTimestampCounters) {
    state.set(counter.name, this->*counter.field);
  }
  for (const auto& clock : kTimestampClocks) {
    state.set(clock.name, this->*clock.field);
  }
  return state;
}

Timestamp Timestamp::from_value(const Value& state) {
  if (!state.is_dict()) {
    throw MismatchError("timestamp: expected a dict, found " + std::string(state.type_name()));
  }
  Timestamp result;
  for (const auto& [key, field, is_old] : kTimestampCounters) {
    const Value* value = state.find(key);
    if (value == nullptr) {
      if (is_old) throw_mismatch(key, "a count", "nothing");
      continue;
    }
    const auto* count = value->get_if<std::int64_t>();
    if (count == nullptr) throw_mismatch(key, "a count", std::string(value->type_name()));
    if (*count < 0) throw_mismatch(key, "a count", std::to_string(*count));
    result.*field = *count;
  }
  for (const auto& [key, field] : kTimestampClocks) {
    const Value* value = state.find(key);
    if (value == nullptr) continue;
    const auto* delta = value->get_if<TimeDelta>();
    if (delta == nullptr) throw_mismatch(key, "a timedelta", std::string(value->type_name()));
    result.*field = *delta;
  }
  return result;
}

}  // namespace cairn
