// TensorboardLogger: metrics, tables and images for TensorBoard
// (composer/loggers/tensorboard_logger.py).
//
//   options.loggers = {TensorboardLogger({.log_dir = "tensorboard_logs"})};
//
// The run is in LOG_DIR/RUN_NAME. Other loggers that keep files (RemoteUploaderDownloader) get each
// event file as "tensorboard_logs/RUN_NAME/FILE".
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cairn/export.h"
#include "cairn/loggers/summary_writer.h"
#include "cairn/train/empty_braces.h"
#include "cairn/train/logger.h"

namespace CAIRN_PUBLIC cairn {

struct TensorboardLoggerOptions {
  std::string log_dir = "tensorboard_logs";
  // After how many batches events are written. They are also written at the end of an epoch, at the
  // begin and end of an evaluation, and when training ends.
  int flush_interval = 100;
  bool rank_zero_only = true;  // false: each rank writes files of its own
  // As in SummaryWriterOptions, for tests.
  std::function<double()> now = nullptr;
};

// A run that resumes goes on in a new file. When its training begins, what a killed run wrote after
// the checkpoint is removed from the files of this folder, so that each step is there once. Where
// the files are not in this folder, but uploaded, TensorBoard hides these steps.
class TensorboardLogger final : public LoggerDestination {
 public:
  // Throws UsageError for a flush_interval below 1.
  explicit TensorboardLogger(TensorboardLoggerOptions options = {});
  explicit TensorboardLogger(EmptyBraces)  // TensorboardLogger({.log_dir = "logs"})
      : TensorboardLogger(TensorboardLoggerOptions()) {}
  ~TensorboardLogger() override;
  TensorboardLogger(TensorboardLogger&&) noexcept;
  TensorboardLogger& operator=(TensorboardLogger&&) noexcept;

  // For what a Logger has no function for: texts and histograms. Null before init, and on a rank
  // that does not log.
  SummaryWriter* writer();

  std::string name() const override { return "TensorboardLogger"; }
  void init(State& state, Logger& logger) override;
  // Numbers, and tensors of one element. Other values are left out, as in Composer.
  void log_metrics(const Dict& metrics, std::int64_t step) override;
  // Shown with the metrics of the next evaluation.
  void log_hyperparameters(const Dict& hyperparameters) override;
  // As a text, in Markdown.
  void log_table(const LoggedTable& table, std::int64_t step) override;
  void log_images(const LoggedImages& images, std::int64_t step) override;

  void fit_start(State& state, Logger& logger) override;
  void batch_end(State& state, Logger& logger) override;
  void epoch_end(State& state, Logger& logger) override;
  void fit_end(State& state, Logger& logger) override;
  void eval_start(State& state, Logger& logger) override;
  // Also logs each loss and metric as "hparams/NAME".
  void eval_end(State& state, Logger& logger) override;
  void close(State& state, Logger& logger) override;

  // The run's name, the batch, and the position in the files.
  Value state_dict() const override;
  void load_state_dict(const Value& state) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn
