#include "cairn/callbacks/mlperf.h"

#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

#include "cairn/dist/dist.h"
#include "cairn/error.h"
#include "cairn/storage/object_store.h"
#include "cairn/train/logger.h"
#include "cairn/train/state.h"

#include "callbacks/watched_metric.h"
#include "core/text/json.h"
#include "core/text/json_text.h"
#include "dist/group.h"
#include "dist/team.h"
#include "io/files/append_file.h"
#include "value/plain_json.h"

namespace cairn {
namespace {

WatchedMetric metric_of(const MLPerfOptions& options) {
  return {.callback = "MLPerfCallback",
          .monitor = options.metric_name,
          .dataloader_label = options.metric_label};
}

std::int64_t milliseconds_now() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// The samples of all ranks together; None if a loader does not know. All ranks call it.
Value samples_of(const DataSpec& data, const char* what) {
  const auto own = data.dataloader->num_samples();
  const double counted = own ? static_cast<double>(*own - data.dataloader->num_repeated())
                             : std::numeric_limits<double>::quiet_NaN();
  const double all = dist::sum({counted}, what)[0];
  return std::isnan(all) ? Value(None{}) : Value(static_cast<std::int64_t>(all));
}

}  // namespace

struct MLPerfCallback::File {
  AppendFile lines;
};

MLPerfCallback::MLPerfCallback(MLPerfOptions options) : options_(std::move(options)) {
  if (options_.root_folder.empty() || options_.system_name.empty() || !options_.index) {
    throw UsageError("MLPerfCallback needs root_folder, index and system_name");
  }
  if (!options_.benchmark.value()) {
    throw UsageError("MLPerfCallback: benchmark is \"resnet\" or \"bert\", not \"" +
                     options_.benchmark + "\"");
  }
  if (!options_.status.value()) {
    throw UsageError("MLPerfCallback: status is \"onprem\", \"cloud\" or \"preview\", not \"" +
                     options_.status + "\"");
  }
}
MLPerfCallback::~MLPerfCallback() = default;
MLPerfCallback::MLPerfCallback(MLPerfCallback&&) noexcept = default;
MLPerfCallback& MLPerfCallback::operator=(MLPerfCallback&&) noexcept = default;

// As mlperf_logging writes it, except for the caller's line of Python.
void MLPerfCallback::write(const char* key, const Value& value, Dict metadata) const {
  if (!file_) return;
  metadata.set("file", "cairn");
  metadata.set("lineno", 0);
  const Value line = Dict{{"namespace", ""},
                          {"time_ms", milliseconds_now()},
                          {"event_type", "POINT_IN_TIME"},
                          {"key", key},
                          {"value", value},
                          {"metadata", std::move(metadata)}};
  file_->lines.append(":::MLLOG " + json_text(plain_json(line, NoJson::kNull), -1) + "\n");
}

std::int64_t MLPerfCallback::time_of(const State& state) const {
  return options_.benchmark == MLPerfBenchmark::kBert ? state.timestamp.sample
                                                      : state.timestamp.epoch;
}

void MLPerfCallback::init(State& /*state*/, Logger& /*logger*/) {
  const std::string path = options_.root_folder + "/results/" + options_.system_name + "/" +
                           options_.benchmark + "/result_" + std::to_string(*options_.index) +
                           ".txt";
  Team::of_job().do_on_first("opening " + path, [&]() -> Value {
    if (local_store()->stat(path)) throw AlreadyExistsError(path + " exists: set another index");
    file_ = std::make_unique<File>(File{AppendFile(path)});
    return None{};
  });
  write("init_start");
  write("submission_benchmark", std::string(options_.benchmark));
  write("submission_division", "open");
  write("submission_org", options_.submitter);
  write("submission_platform", options_.system_name);
  write("submission_status", std::string(options_.status));
}

void MLPerfCallback::fit_start(State& state, Logger& logger) {
  if (state.evaluators.size() != 1) {
    throw UsageError("MLPerfCallback needs exactly one evaluator, found " +
                     std::to_string(state.evaluators.size()));
  }
  metric_of(options_).check(state, logger);
  const DataSpec& train = state.train_dataloader;
  const auto batch_size = train.dataloader->batch_size();
  write("seed", state.rank_zero_seed);
  write("global_batch_size", batch_size ? Value(*batch_size * dist::world_size()) : None{});
  write("device_train_microbatch_size",
        state.device_train_microbatch_size ? Value(*state.device_train_microbatch_size) : None{});
  write("train_samples", samples_of(train, "counting the training samples"));
  write("eval_samples",
        samples_of(state.evaluators.front().dataloader, "counting the evaluated samples"));
  write("init_stop");
  write("run_start");
}

void MLPerfCallback::epoch_start(State& state, Logger& /*logger*/) {
  write("epoch_start", None{}, Dict{{"epoch_num", time_of(state)}});
  write("block_start", None{}, Dict{{"first_epoch_num", time_of(state)}, {"epoch_count", 1}});
}

void MLPerfCallback::epoch_end(State& state, Logger& /*logger*/) {
  write("epoch_stop", None{}, Dict{{"epoch_num", time_of(state)}});
}

void MLPerfCallback::eval_start(State& state, Logger& /*logger*/) {
  if (state.dataloader_label != options_.metric_label) return;
  write("eval_start", None{}, Dict{{"epoch_num", time_of(state)}});
}

void MLPerfCallback::eval_end(State& state, Logger& /*logger*/) {
  if (state.dataloader_label != options_.metric_label) return;
  const double value = metric_of(options_).value(state);
  write("eval_stop", None{}, Dict{{"epoch_num", time_of(state)}});
  write("eval_accuracy", value, Dict{{"epoch_num", time_of(state)}});
  write("block_stop", None{}, Dict{{"first_epoch_num", time_of(state)}});
  if (!(value > options_.target)) return;  // also for NaN
  if (!std::exchange(has_succeeded_, true)) {
    write("run_stop", None{}, Dict{{"status", "success"}});
  }
  if (options_.exit_at_target) state.stop_training();
}

}  // namespace cairn
