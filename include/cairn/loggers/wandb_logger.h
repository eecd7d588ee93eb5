// WandBLogger: metrics and hyperparameters for Weights & Biases, as an offline run
// (composer/loggers/wandb_logger.py).
//
//   options.loggers = {WandBLogger({.project = "digits"})};
//
// The run is in ./wandb/offline-run-DATE-ID, as wandb itself writes it with WANDB_MODE=offline. The
// command `wandb sync` uploads it, during the run or later.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cairn/train/empty_braces.h"
#include "cairn/train/logger.h"

namespace cairn {

// Composer's arguments in Composer's order, then the options that only cairn has.
struct WandBLoggerOptions {
  std::optional<std::string> project = std::nullopt;  // WANDB_PROJECT, or what `wandb sync` is told
  std::optional<std::string> group = std::nullopt;    // WANDB_RUN_GROUP
  std::optional<std::string> name = std::nullopt;     // the Trainer's run_name
  std::optional<std::string> entity = std::nullopt;   // WANDB_ENTITY, or that of the key
  std::vector<std::string> tags = {};
  bool rank_zero_only = true;  // false: each rank has a run NAME-rank1 in a group

  std::optional<std::string> dir = std::nullopt;  // has the folder wandb/; WANDB_DIR, or "."
  // The time of day, for tests; the system's clock when empty.
  std::function<std::chrono::system_clock::time_point()> now = nullptr;
};

// A run that resumes has the id of its checkpoint, and a folder of its own: `wandb sync --append`
// adds it to the run. Before it trains, it removes what the killed run wrote after the checkpoint.
// WANDB_RUN_ID has precedence.
class WandBLogger final : public LoggerDestination {
 public:
  explicit WandBLogger(WandBLoggerOptions options = {});
  explicit WandBLogger(EmptyBraces)  // WandBLogger({.project = "digits"})
      : WandBLogger(WandBLoggerOptions()) {}
  ~WandBLogger() override;
  WandBLogger(WandBLogger&&) noexcept;
  WandBLogger& operator=(WandBLogger&&) noexcept;

  std::string name() const override { return "WandBLogger"; }
  void init(State& state, Logger& logger) override;
  // All metrics of a step are one row. Rows are written in the order of their steps, when an epoch,
  // an evaluation or training ends, at a checkpoint, and when there are more than 100.
  void log_metrics(const Dict& metrics, std::int64_t step) override;
  void log_hyperparameters(const Dict& hyperparameters) override;

  void fit_start(State& state, Logger& logger) override;
  void batch_end(State& state, Logger& logger) override;
  void epoch_end(State& state, Logger& logger) override;
  void eval_end(State& state, Logger& logger) override;
  void fit_end(State& state, Logger& logger) override;
  // Writes the summary, which is the last value of each metric, and the end of the run.
  void close(State& state, Logger& logger) override;

  // The run's id, which the checkpoint holds, too.
  std::string run_id() const;
  // The file with the records; empty before the first one.
  std::string path() const;
  Value state_dict() const override;
  void load_state_dict(const Value& state) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn
