// MLFlowLogger: metrics, parameters, tables and images for MLflow
// (composer/loggers/mlflow_logger.py).
//
//   options.loggers = {MLFlowLogger({.experiment_name = "digits"})};
//
// Without a server the run is in ./mlruns, a folder that `mlflow ui` shows. A server gets
// everything from a thread of its own, and training never waits for it. While the server is away,
// entries wait in a folder. They arrive later, also from the next start of the run. docs/loggers.md
// says more.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cairn/export.h"
#include "cairn/train/empty_braces.h"
#include "cairn/train/logger.h"

namespace CAIRN_PUBLIC cairn {

// Composer's arguments in Composer's order, then the options that only cairn has.
struct MLFlowLoggerOptions {
  // MLFLOW_EXPERIMENT_NAME, or else "my-mlflow-experiment". Databricks needs "/Users/..." or
  // "/Shared/...".
  std::optional<std::string> experiment_name = std::nullopt;
  std::optional<std::string> run_name = std::nullopt;  // the Trainer's
  std::map<std::string, std::string> tags = {};
  // A folder, the URL of a server, "databricks" or "databricks://PROFILE". MLFLOW_TRACKING_URI;
  // without it "databricks" if DATABRICKS_TOKEN is set, and else "mlruns".
  std::optional<std::string> tracking_uri = std::nullopt;
  bool rank_zero_only = true;  // false: each rank has a run of its own, NAME-rank1
  // Metrics are sent together after this time.
  std::chrono::seconds flush_interval{10};
  std::map<std::string, std::string> rename_metrics = {};
  // Names that are not logged, with * and ? as in fnmatch.
  std::vector<std::string> ignore_metrics = {};
  std::vector<std::string> ignore_hyperparameters = {};
  std::optional<std::string> run_group = std::nullopt;  // a tag
  // A metric that keeps its value is logged once in so many batches.
  std::int64_t log_duplicated_metric_every_n_steps = 100;

  // The folder of what waits for a server: dist variables. At most 256 MiB; then the oldest is
  // lost.
  std::string spool_folder = "{run_name}/mlflow-rank{rank}";
  // How long close() waits for the server.
  std::chrono::seconds upload_timeout{60};
  // The time of day, for tests; the system's clock when empty.
  std::function<std::chrono::system_clock::time_point()> now = nullptr;
};

// A run that resumes continues its run in MLflow, whose id is in the checkpoint. MLFLOW_RUN_ID has
// precedence.
class MLFlowLogger final : public LoggerDestination {
 public:
  explicit MLFlowLogger(MLFlowLoggerOptions options = {});
  explicit MLFlowLogger(EmptyBraces)  // MLFlowLogger({.experiment_name = "digits"})
      : MLFlowLogger(MLFlowLoggerOptions()) {}
  ~MLFlowLogger() override;  // entries that were not sent stay for the next start
  MLFlowLogger(MLFlowLogger&&) noexcept;
  MLFlowLogger& operator=(MLFlowLogger&&) noexcept;

  std::string name() const override { return "MLFlowLogger"; }
  // Sends nothing yet. Throws UsageError for an invalid tracking_uri or experiment_name, and
  // UnsupportedError for a server if cairn was built without network stores.
  void init(State& state, Logger& logger) override;
  void log_metrics(const Dict& metrics, std::int64_t step) override;
  void log_hyperparameters(const Dict& hyperparameters) override;
  // As the artifact NAME.json: {"columns": [...], "data": [[...], ...]}. A later one replaces it.
  void log_table(const LoggedTable& table, std::int64_t step) override;
  // As artifacts images/NAME_I_step_STEP.png.
  void log_images(const LoggedImages& images, std::int64_t step) override;

  void fit_start(State& state, Logger& logger) override;
  void batch_end(State& state, Logger& logger) override;
  void eval_end(State& state, Logger& logger) override;
  void fit_end(State& state, Logger& logger) override;
  // Waits for the server, ends the run there, and logs what did not arrive.
  void close(State& state, Logger& logger) override;

  // The run's id. Empty before the server has made the run.
  std::string run_id() const;
  Value state_dict() const override;
  void load_state_dict(const Value& state) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn
