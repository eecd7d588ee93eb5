#include "train/state/load/old_schedules.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

namespace cairn {
namespace {

// Sets the state's time while this object lives.
class TimeGuard {
 public:
  TimeGuard(State& state, const Timestamp& time)
      : state_(state), before_(std::exchange(state.timestamp, time)) {}
  ~TimeGuard() { state_.timestamp = before_; }
  TimeGuard(const TimeGuard&) = delete;
  TimeGuard& operator=(const TimeGuard&) = delete;

 private:
  State& state_;
  const Timestamp before_;
};

// The time one batch earlier, if all batches had the same number of samples and tokens.
Timestamp one_batch_before(Timestamp time) {
  if (time.batch == 0) return time;
  time.sample -= time.sample / time.batch;
  time.token -= time.token / time.batch;
  --time.batch;
  time.batch_in_epoch = std::max<std::int64_t>(0, time.batch_in_epoch - 1);
  return time;
}

std::optional<bool> has_rates_of(const Timestamp& time, const RunningScheduler& scheduler,
                                 State& state) {
  const TimeGuard guard(state, time);
  return scheduler.is_of_present_time();
}

bool find_steps(const Value& saved, const Timestamp& time, State& state) {
  const Value* noted = find_path(saved, std::string("timestamp/") + kStepAfterTime);
  if (noted != nullptr) return *noted == Value(true);
  if (saved.find("metadata") != nullptr) return false;
  bool has_any = false;
  for (const auto& scheduler : state.schedulers) {
    const auto now = has_rates_of(time, *scheduler, state);
    if (!now) continue;
    has_any = true;
    if (now != has_rates_of(one_batch_before(time), *scheduler, state)) return *now;
  }
  return has_any && saved.find("run_name") == nullptr;
}

}  // namespace

bool steps_after_time(const Value& saved, const Timestamp& time, State& state, Logger& logger) {
  const bool is_so = find_steps(saved, time, state);
  if (is_so) {
    logger.log_message(
        "the run began in Composer up to 0.9, which stepped schedulers after the time had "
        "advanced: it goes on so");
  }
  return is_so;
}

}  // namespace cairn
