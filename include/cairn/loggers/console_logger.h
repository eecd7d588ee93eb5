// ConsoleLogger: metrics as text at an interval (composer/loggers/console_logger.py):
//
//   [epoch=1/2][batch=20/40]:
//       loss/train/total: 0.2134
#pragma once

#include <functional>
#include <ostream>
#include <string>

#include "cairn/export.h"
#include "cairn/train/empty_braces.h"
#include "cairn/train/interval.h"
#include "cairn/train/logger.h"

namespace CAIRN_PUBLIC cairn {

// The default prints every batch, which is too much for long runs: use "10ba" or "1ep".
struct ConsoleLoggerOptions {
  Interval log_interval = "1ba";   // epochs or batches
  std::ostream* stream = nullptr;  // must outlive the logger; std::cerr when null
  bool log_traces = false;         // also log which algorithm ran at which event
};

// Collects metrics until the interval, and then prints the last value of each. Prints
// hyperparameters at fit_start and messages at once. Flushes the stream each time. A Trainer makes
// one if TrainerOptions::log_to_console is true.
class ConsoleLogger final : public LoggerDestination {
 public:
  // Throws UsageError for an interval in units other than epochs and batches. If the interval is a
  // function, it is called at batch_end, epoch_end and fit_end.
  explicit ConsoleLogger(ConsoleLoggerOptions options = {});
  explicit ConsoleLogger(EmptyBraces)  // ConsoleLogger({.log_interval = "10ba"})
      : ConsoleLogger(ConsoleLoggerOptions()) {}

  std::string name() const override { return "ConsoleLogger"; }
  // In the batches after which it prints.
  bool needs_losses(const State& state) const override;
  void log_metrics(const Dict& metrics, std::int64_t step) override;
  void log_hyperparameters(const Dict& hyperparameters) override;
  void log_traces(const Dict& traces) override;
  void log_message(const std::string& message) override;

  void fit_start(State& state, Logger& logger) override;
  void batch_end(State& state, Logger& logger) override;
  void epoch_end(State& state, Logger& logger) override;
  void fit_end(State& state, Logger& logger) override;
  void eval_end(State& state, Logger& logger) override;

 private:
  void print(const State& state);
  void print_entries(const Dict& entries);

  ConsoleLoggerOptions options_;
  std::function<bool(const State&, Event)> is_due_;
  Dict hyperparameters_;
  Dict metrics_;
};

}  // namespace cairn
