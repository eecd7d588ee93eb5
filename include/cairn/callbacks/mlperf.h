// MLPerfCallback: writes the log of a run for MLPerf Training (composer/callbacks/mlperf.py).
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>

#include "cairn/export.h"
#include "cairn/train/callback.h"
#include "cairn/train/empty_braces.h"
#include "cairn/value.h"
#include "cairn/word.h"

namespace CAIRN_PUBLIC cairn {

enum class MLPerfBenchmark : std::uint8_t { kResnet, kBert };
template <>
struct WordsOf<MLPerfBenchmark> {
  static constexpr std::array kAll = {"resnet", "bert"};
};
enum class MLPerfStatus : std::uint8_t { kOnprem, kCloud, kPreview };
template <>
struct WordsOf<MLPerfStatus> {
  static constexpr std::array kAll = {"onprem", "cloud", "preview"};
};

//   MLPerfCallback({.root_folder = "submission", .index = 0, .system_name = "8xH100"})
struct MLPerfOptions {
  std::string root_folder = {};                // required
  std::optional<std::int64_t> index = {};      // required: which repetition this run is
  Word<MLPerfBenchmark> benchmark = "resnet";  // times are epochs, or samples for "bert"
  double target = 0.759;                       // a metric above it is success
  std::string metric_name = "MulticlassAccuracy";
  std::string metric_label = "eval";  // the evaluator's
  std::string submitter = "MosaicML";
  std::string system_name = {};  // required
  Word<MLPerfStatus> status = "onprem";
  bool exit_at_target = false;  // whether success ends training
};

// Writes <root_folder>/results/<system_name>/<benchmark>/result_<index>.txt on rank 0: a line
// ":::MLLOG {...}" for the submission, for the beginning and end of the initialisation, the run,
// its epochs and evaluations, and for the accuracy of each evaluation. The division is "open". Each
// line is in the kernel when the event returns.
//
// fit() throws UsageError unless there is exactly one evaluator, with that label and metric. At
// construction of the Trainer, throws AlreadyExistsError if the file exists: a repetition is a run
// from the beginning. A run that resumes needs a new index.
//
// Composer also clears the machine's caches (cache_clear_cmd) and guesses a description of the
// system. Clear the caches before the program starts, and write systems/<system_name>.json by hand.
class MLPerfCallback final : public Callback {
 public:
  explicit MLPerfCallback(MLPerfOptions options);  // UsageError
  explicit MLPerfCallback(EmptyBraces)  // MLPerfCallback({.root_folder = "submission", ...})
      : MLPerfCallback(MLPerfOptions()) {}
  template <detail::NeverMatches T>
  MLPerfCallback(std::initializer_list<T>) = delete;
  ~MLPerfCallback() override;
  MLPerfCallback(MLPerfCallback&&) noexcept;
  MLPerfCallback& operator=(MLPerfCallback&&) noexcept;

  std::string name() const override { return "MLPerfCallback"; }
  bool needs_losses(const State& /*state*/) const override { return false; }
  bool may_change_batch() const override { return false; }
  void init(State& state, Logger& logger) override;
  void fit_start(State& state, Logger& logger) override;
  void epoch_start(State& state, Logger& logger) override;
  void epoch_end(State& state, Logger& logger) override;
  void eval_start(State& state, Logger& logger) override;
  void eval_end(State& state, Logger& logger) override;

 private:
  struct File;

  void write(const char* key, const Value& value = None{}, Dict metadata = {}) const;
  std::int64_t time_of(const State& state) const;

  MLPerfOptions options_;
  std::unique_ptr<File> file_;  // null except on rank 0
  bool has_succeeded_ = false;
};

}  // namespace cairn
