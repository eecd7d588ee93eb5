// WandBLogger: metrics for Weights & Biases (composer/loggers/wandb_logger.py).
//
//   options.loggers = {WandBLogger({.project = "digits"})};
//
// Online, a thread of its own sends the run to W&B, and training never waits for it. While the
// server is away, entries wait in a folder. They arrive later, also from the next start of the run.
//
// Offline, the run is a file in W&B's own format, DIR/wandb/offline-run-TIME-ID/run-ID.wandb. W&B's
// tool sends it: `wandb sync DIR/wandb/offline-run-TIME-ID`. docs/loggers.md says more.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cairn/export.h"
#include "cairn/train/empty_braces.h"
#include "cairn/train/logger.h"

namespace CAIRN_PUBLIC cairn {

// Empty texts come from the environment, as for W&B's tools.
struct WandBLoggerOptions {
  std::string project = {};  // WANDB_PROJECT, or else "uncategorized"
  std::string group = {};    // WANDB_RUN_GROUP
  std::string name = {};     // the shown name: WANDB_NAME, or else the run's
  std::string entity = {};   // a user or a team: WANDB_ENTITY, or else the key's owner
  std::vector<std::string> tags = {};
  // false: each rank has a run, "NAME-rank3", in the group NAME. After a restart the other ranks
  // begin new ones.
  bool rank_zero_only = true;
  // W&B's init_kwargs.
  std::string id = {};   // WANDB_RUN_ID, or else drawn; a resumed run keeps its id
  std::string dir = {};  // WANDB_DIR, or else "."
  // "online", "offline" or "disabled": WANDB_MODE, or else "online", which needs WANDB_API_KEY, or
  // the key that `wandb login` writes. WANDB_BASE_URL: a server of one's own.
  std::string mode = {};
  std::string notes = {};     // WANDB_NOTES
  std::string job_type = {};  // WANDB_JOB_TYPE
  // How long close() waits for the server.
  std::chrono::seconds upload_timeout{60};
  // The time in seconds since 1970, for tests. nullptr: the system's clock.
  std::function<double()> now = nullptr;
};

// A run that resumes from a checkpoint continues its run. On the server, rows that a killed run
// wrote after the checkpoint are replaced. If the run's file is in `dir`, they are removed from it
// when training begins. So each step is there once. If the file is elsewhere, a second file of the
// same run begins, and `wandb sync --append` sends it.
//
// A program that only evaluates a checkpoint has a run of its own.
//
// A row has all metrics of a step. Losses arrive some batches late, so the rows of the last 20
// batches wait in memory. A checkpoint has those that are not complete yet.
class WandBLogger final : public LoggerDestination {
 public:
  // Throws UsageError for another mode, and for an id with other characters than letters, digits, -
  // and _.
  explicit WandBLogger(WandBLoggerOptions options = {});
  explicit WandBLogger(EmptyBraces)  // WandBLogger({.project = "digits"})
      : WandBLogger(WandBLoggerOptions()) {}
  ~WandBLogger() override;
  WandBLogger(WandBLogger&&) noexcept;
  WandBLogger& operator=(WandBLogger&&) noexcept;

  std::string name() const override { return "WandBLogger"; }
  // The run's id. Empty before after_load, on a rank that does not log, and if disabled.
  std::string run_id() const;
  // The folder of the run's file. Empty until the first row is written, and online.
  std::string run_dir() const;

  // Sends nothing yet. Throws UsageError for a / in the name of the entity or the project. Online,
  // also throws UsageError if there is no key, and UnsupportedError if cairn was built without
  // network stores.
  void init(State& state, Logger& logger) override;
  void log_metrics(const Dict& metrics, std::int64_t step) override;
  void log_hyperparameters(const Dict& hyperparameters) override;

  void after_load(State& state, Logger& logger) override;
  void fit_start(State& state, Logger& logger) override;
  void batch_end(State& state, Logger& logger) override;
  void fit_end(State& state, Logger& logger) override;
  // Online, waits for the server, and logs what did not arrive.
  void close(State& state, Logger& logger) override;

  // The run's id, its rows and summary, and the position in its file.
  Value state_dict() const override;
  void load_state_dict(const Value& state) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn
