// ProgressBarLogger: a tqdm-like bar of training and of evaluation
// (composer/loggers/progress_bar_logger.py). A terminal shows a bar that is redrawn in place. Other
// streams get a line from time to time, and one when a bar is complete.
#pragma once

#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "cairn/export.h"
#include "cairn/seconds.h"
#include "cairn/train/empty_braces.h"
#include "cairn/train/logger.h"

namespace CAIRN_PUBLIC cairn {

// The defaults suit terminals and logs; tests pass a stream and a clock of their own.
struct ProgressBarLoggerOptions {
  std::ostream* stream = nullptr;  // must outlive the logger; std::cerr when null
  bool log_traces = false;         // also log which algorithm ran at which event
  // Whether the bar is redrawn in place. nullopt: detected. Set it where detection is wrong: true
  // if a notebook shows the output, false in a recorded session.
  std::optional<bool> is_terminal = std::nullopt;
  // The shortest time between two redraws (terminal) or two lines (elsewhere), so that drawing does
  // not slow short batches down.
  Seconds redraw_seconds = 0.1;
  Seconds line_seconds = 10;
  // A clock in seconds, for tests; the steady clock when empty.
  std::function<double()> now = nullptr;
};

// A Trainer makes one if TrainerOptions::progress_bar is true. Make your own for another stream or
// another pace. The bar shows the last metrics that were logged. Messages are printed above the
// bar.
class ProgressBarLogger final : public LoggerDestination {
 public:
  explicit ProgressBarLogger(ProgressBarLoggerOptions options = {});
  explicit ProgressBarLogger(EmptyBraces)  // ProgressBarLogger({.log_traces = true})
      : ProgressBarLogger(ProgressBarLoggerOptions()) {}

  std::string name() const override { return "ProgressBarLogger"; }
  void log_metrics(const Dict& metrics, std::int64_t step) override;
  void log_hyperparameters(const Dict& hyperparameters) override;
  void log_traces(const Dict& traces) override;
  void log_message(const std::string& message) override;

  void fit_start(State& state, Logger& logger) override;
  void epoch_start(State& state, Logger& logger) override;
  void batch_end(State& state, Logger& logger) override;
  void epoch_end(State& state, Logger& logger) override;
  void fit_end(State& state, Logger& logger) override;
  void eval_start(State& state, Logger& logger) override;
  void eval_batch_end(State& state, Logger& logger) override;
  void eval_end(State& state, Logger& logger) override;
  void close(State& state, Logger& logger) override;

  // Composer's two keys, both None. The bars follow from the training time, but Composer's reader
  // requires the keys.
  Value state_dict() const override;

 private:
  struct Bar {
    std::string description;
    std::string unit;
    std::int64_t n = 0;
    std::optional<std::int64_t> total;
    std::int64_t initial = 0;
    double begin = 0;
    std::vector<std::pair<std::string, Value>> metrics;
  };

  void begin_train_bar(const State& state);
  void update(Bar& bar, std::int64_t n);
  void draw(const Bar& bar, bool is_last);
  void finish(std::optional<Bar>& bar);
  void clear_line();

  ProgressBarLoggerOptions options_;
  std::optional<Bar> train_;
  std::optional<Bar> eval_;
  double last_drawn_ = 0;
  bool is_line_dirty_ = false;  // a bar is in the terminal's current line
  Dict hyperparameters_;
};

}  // namespace cairn
