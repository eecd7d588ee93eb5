// FileLogger: writes everything that is logged, one JSON object per line:
//
//   {"batch":20,"metric":"loss/train/total","value":0.2134}
//   {"hyperparameter":"rank_zero_seed","value":17}
//   {"time":"2026-01-31T09:30:00.125Z","batch":20,"message":"saved ep1-ba20-rank0.pt"}
//   {"time":"2026-01-31T09:30:00.125Z","batch":20,"event":"fit_start","max_duration":"2ep",
//    "dataloader_len":100}                on one line; the last two only if they are known
//
// or, with FileLogFormat::kBatches, one object a batch with the time of day:
//
//   {"time":"2026-01-31T09:30:00.125Z","batch":20,"loss/train/total":0.2134,"lr":0.1}
//
// or the same as CSV, under the names of the columns. Values that JSON does not have (NaN,
// infinities, tensors) are null, and empty in CSV. An event is "fit_start", "fit_end", or "close"
// if fit() was interrupted or failed; a killed process leaves none. An existing file is continued,
// even if its writer was killed inside a line, so a run that resumes has one log. Lines logged
// after the checkpoint that a run resumed from then occur twice; the later ones count.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "cairn/export.h"
#include "cairn/train/empty_braces.h"
#include "cairn/train/logger.h"
#include "cairn/word.h"

namespace CAIRN_PUBLIC cairn {

enum class FileLogFormat : std::uint8_t {
  kEntries,  // JSON: a line for each metric
  kBatches,  // JSON: a line for the metrics of a batch, with those of an evaluation after it
  kCsv,      // the lines of kBatches as CSV, without those of the other kinds
};
template <>
struct WordsOf<FileLogFormat> {
  static constexpr std::array kAll = {"entries", "batches", "csv"};
};

struct FileLoggerOptions {
  std::string filename = "{run_name}/logs-rank{rank}.jsonl";  // dist variables
  // If true, begin with an empty file. If false, continue an existing one, as resumed runs need.
  bool overwrite = false;
  // A CSV file is written anew when a metric appears that has no column yet.
  Word<FileLogFormat> format = FileLogFormat::kEntries;
  // The time of day, for tests; the system's clock when empty.
  std::function<std::chrono::system_clock::time_point()> now = nullptr;
};

// Each line is in the kernel when the call returns, so it survives a kill of the process. The line
// of a batch is written when something is logged for the next one.
class FileLogger final : public LoggerDestination {
 public:
  // Throws UsageError for an unknown format.
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
  // {"batch":20,"table":"Table","columns":["a"],"rows":[[1]]}
  void log_table(const LoggedTable& table, std::int64_t step) override;

  void fit_start(State& state, Logger& logger) override;
  // Write the line of the last batch, and an event.
  void fit_end(State& state, Logger& logger) override;
  void close(State& state, Logger& logger) override;

  // The metrics of a line that is not written yet.
  Value state_dict() const override;
  void load_state_dict(const Value& state) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn
