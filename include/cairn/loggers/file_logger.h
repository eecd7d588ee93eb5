// FileLogger: writes everything that is logged, one JSON object per line:
//
//   {"batch":20,"metric":"loss/train/total","value":0.2134}
//   {"hyperparameter":"rank_zero_seed","value":17}
//   {"batch":20,"message":"saved ckpt/ep1-ba20-rank0.pt  1.2 MiB  0.01 s"}
//
// Values that JSON does not have (NaN, infinities, tensors) are null. An existing file is
// continued, even if its writer was killed inside a line, so a run that resumes has one log. Lines
// logged after the checkpoint that a run resumed from then occur twice; the later ones count.
#pragma once

#include <memory>
#include <string>

#include "cairn/train/empty_braces.h"
#include "cairn/train/logger.h"

namespace cairn {

struct FileLoggerOptions {
  std::string filename = "{run_name}/logs-rank{rank}.jsonl";  // dist variables
  // If true, begin with an empty file. If false, continue an existing one, as resumed runs need.
  bool overwrite = false;
};

// Each line is in the kernel when the call returns, so it survives a kill of the process.
class FileLogger final : public LoggerDestination {
 public:
  explicit FileLogger(FileLoggerOptions options = {});
  explicit FileLogger(EmptyBraces)  // FileLogger({.filename = "log"})
      : FileLogger(FileLoggerOptions()) {}
  ~FileLogger() override;
  FileLogger(FileLogger&&) noexcept;
  FileLogger& operator=(FileLogger&&) noexcept;

  std::string name() const override { return "FileLogger"; }
  void init(State& state, Logger& logger) override;  // opens the file; StorageError
  void log_metrics(const Dict& metrics, std::int64_t step) override;
  void log_hyperparameters(const Dict& hyperparameters) override;
  void log_traces(const Dict& traces) override;
  void log_message(const std::string& message) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn
