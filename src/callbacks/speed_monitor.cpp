#include "cairn/callbacks/speed_monitor.h"

#include "cairn/error.h"
#include "cairn/train/logger.h"
#include "cairn/train/state.h"

#include "callbacks/wall_time.h"

namespace cairn {
namespace {

void set_rate(Dict& metrics, const std::string& what, std::int64_t amount, double seconds) {
  const double rate = static_cast<double>(amount) / seconds;
  metrics.set("throughput/" + what + "_per_sec", rate);
  metrics.set("throughput/device/" + what + "_per_sec", rate);  // one device
}

}  // namespace

SpeedMonitor::SpeedMonitor(const SpeedMonitorOptions& options)
    : window_size_(static_cast<std::size_t>(options.window_size)),
      unit_seconds_(seconds_of(options.time_unit, "SpeedMonitor")) {
  if (options.window_size < 1) throw UsageError("SpeedMonitor: window_size must be at least 1");
}

void SpeedMonitor::batch_end(State& state, Logger& logger) {
  const Timestamp& now = state.timestamp;
  const double train_seconds = now.total_wct.total_seconds();
  window_.push_back({train_seconds, now.batch, now.sample, now.token});
  if (window_.size() > window_size_ + 1) window_.pop_front();
  Dict metrics;
  const Point& first = window_.front();
  const double elapsed = train_seconds - first.seconds;
  if (window_.size() == window_size_ + 1 && elapsed > 0) {
    set_rate(metrics, "batches", now.batch - first.batches, elapsed);
    set_rate(metrics, "samples", now.sample - first.samples, elapsed);
    if (now.token > first.tokens) set_rate(metrics, "tokens", now.token - first.tokens, elapsed);
  }
  metrics.set("time/train", train_seconds / unit_seconds_);
  metrics.set("time/val", total_eval_wct_ / unit_seconds_);
  metrics.set("time/total", (train_seconds + total_eval_wct_) / unit_seconds_);
  logger.log_metrics(metrics);
}

void SpeedMonitor::eval_end(State& state, Logger& /*logger*/) {
  total_eval_wct_ += state.eval_timestamp.total_wct.total_seconds();
}

Value SpeedMonitor::state_dict() const { return Dict{{"total_eval_wct", total_eval_wct_}}; }

void SpeedMonitor::load_state_dict(const Value& state) {
  const Value* seconds = state.is_dict() ? state.find("total_eval_wct") : nullptr;
  if (seconds == nullptr || (seconds->kind() != Kind::kFloat && !seconds->is_int())) {
    throw MismatchError("SpeedMonitor's state has no number \"total_eval_wct\"");
  }
  total_eval_wct_ = seconds->as_float();
  window_.clear();
}

}  // namespace cairn
