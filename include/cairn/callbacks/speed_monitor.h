// SpeedMonitor: logs throughput and the time spent (composer/callbacks/speed_monitor.py).
#pragma once

#include <cstdint>
#include <deque>
#include <initializer_list>

#include "cairn/callbacks/wall_time_unit.h"
#include "cairn/export.h"
#include "cairn/train/callback.h"
#include "cairn/train/empty_braces.h"
#include "cairn/word.h"

namespace CAIRN_PUBLIC cairn {

struct SpeedMonitorOptions {
  // Number of batches that a throughput is averaged over. Throughput is logged only after that many
  // batches. Smaller for short runs, larger for steadier numbers.
  int window_size = 100;
  // The unit of time/*: "seconds", "minutes", "hours" or "days".
  Word<WallTimeUnit> time_unit = WallTimeUnit::kHours;
};

// Logs, after every batch, once the window is full:
//   throughput/batches_per_sec, throughput/samples_per_sec, throughput/tokens_per_sec (where there
//   are tokens), and the same below throughput/device/;
// and after every batch: time/train, time/val, time/total. Times are those of the Timestamp:
// training without evaluation. After a resume the window is empty; the time spent evaluating is
// kept.
class SpeedMonitor final : public Callback {
 public:
  explicit SpeedMonitor(const SpeedMonitorOptions& options = {});  // UsageError
  explicit SpeedMonitor(EmptyBraces)  // SpeedMonitor({.window_size = 10})
      : SpeedMonitor(SpeedMonitorOptions()) {}
  template <detail::NeverMatches T>
  SpeedMonitor(std::initializer_list<T>) = delete;

  std::string name() const override { return "SpeedMonitor"; }
  bool needs_losses(const State& /*state*/) const override { return false; }
  bool may_change_batch() const override { return false; }
  void batch_end(State& state, Logger& logger) override;
  void eval_end(State& state, Logger& logger) override;
  Value state_dict() const override;  // {"total_eval_wct": seconds}
  void load_state_dict(const Value& state) override;

 private:
  struct Point {
    double seconds;
    std::int64_t batches, samples, tokens;
  };

  std::size_t window_size_;
  double unit_seconds_;
  std::deque<Point> window_;
  double total_eval_wct_ = 0;
};

}  // namespace cairn
