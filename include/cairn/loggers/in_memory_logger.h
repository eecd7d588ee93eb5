// InMemoryLogger: keeps everything that is logged (composer/loggers/in_memory_logger.py).
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cairn/export.h"
#include "cairn/time.h"
#include "cairn/train/logger.h"

namespace CAIRN_PUBLIC cairn {

// For notebooks and tests: pass it as a shared pointer, and read it afterwards. Every value of
// every metric stays in memory, a few hundred bytes each: on long runs use FileLogger. The data are
// not part of a checkpoint. Use it on the training thread only.
class InMemoryLogger final : public LoggerDestination {
 public:
  using Series = std::vector<std::pair<Timestamp, Value>>;

  std::string name() const override { return "InMemoryLogger"; }
  // True: each value is kept with the training time at which it was logged.
  bool needs_losses(const State& /*state*/) const override { return true; }
  void init(State& state, Logger& logger) override;
  void log_metrics(const Dict& metrics, std::int64_t step) override;
  void log_hyperparameters(const Dict& hyperparameters) override;
  void log_message(const std::string& message) override;

  // All values of every metric with the training time at which each was logged, oldest first.
  const std::map<std::string, Series>& data() const { return data_; }
  // Data for a plot: the metric's values under its name, and for each value the fields of the
  // training time under Composer's names ("epoch", "batch", ..., "total_wct" in seconds). Values
  // that are not numbers become NaN. Throws NotFoundError, which lists the known metrics.
  std::map<std::string, std::vector<double>> get_timeseries(const std::string& metric) const;
  // Throws NotFoundError, which lists the known metrics.
  const Value& most_recent_value(const std::string& metric) const;
  const Dict& hyperparameters() const { return hyperparameters_; }
  const std::vector<std::string>& messages() const { return messages_; }

 private:
  const Series& find(const std::string& metric) const;

  const State* state_ = nullptr;
  std::map<std::string, Series> data_;
  Dict hyperparameters_;
  std::vector<std::string> messages_;
};

}  // namespace cairn
