#include "cairn/callbacks/profiler.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "cairn/checkpoint/names.h"
#include "cairn/dist/dist.h"
#include "cairn/error.h"
#include "cairn/storage/object_store.h"
#include "cairn/train/logger.h"
#include "cairn/train/state.h"

#include "callbacks/profiler/trace.h"
#include "io/file.h"
#include "io/files/append_file.h"
#include "storage/listing.h"

namespace cairn {

ProfilerSchedule cyclic_schedule(CyclicScheduleOptions options) {
  const auto& [skip_first, wait, warmup, active, repeat] = options;
  if (skip_first < 0 || wait < 0 || warmup < 0 || active < 1 || repeat < 0) {
    throw UsageError(
        "cyclic_schedule: active must be at least 1, and the other numbers at least 0");
  }
  return [options](const State& state, std::int64_t resumption_batch_idx) {
    const std::int64_t cycle = options.wait + options.warmup + options.active;
    const std::int64_t batch = state.timestamp.batch_in_epoch;
    const std::int64_t index = batch - options.skip_first - resumption_batch_idx;
    if (index < 0) return ProfilerAction::kSkip;
    if (options.repeat != 0 && index >= cycle * options.repeat) return ProfilerAction::kSkip;
    const std::int64_t position = index % cycle;
    if (position < options.wait) return ProfilerAction::kSkip;
    if (position < options.wait + options.warmup) return ProfilerAction::kWarmup;
    const bool is_last_of_epoch = state.dataloader_len && batch == *state.dataloader_len - 1;
    return position == cycle - 1 || is_last_of_epoch ? ProfilerAction::kActiveAndSave
                                                     : ProfilerAction::kActive;
  };
}

struct Profiler::Impl {
  explicit Impl(ProfilerOptions given) : options(std::move(given)) {
    if (!options.schedule) throw UsageError("Profiler: schedule is empty");
    if (options.num_traces_to_keep.value_or(-1) < -1) {
      throw UsageError("Profiler: num_traces_to_keep is -1 (all), 0 or more, not " +
                       std::to_string(*options.num_traces_to_keep));
    }
  }

  void save(const State& state, Logger& logger);
  void remove_old_traces();

  ProfilerOptions options;
  std::int64_t resumption_batch_idx = 0;
  ProfilerAction action = ProfilerAction::kSkip;
  std::optional<ProfilerTrace> trace;  // From the first batch that is not skipped to the save.
  Clock::time_point batch_begin;
  std::vector<std::string> saved_traces;
};

void Profiler::Impl::save(const State& state, Logger& logger) {
  const FormatVariables variables =
      dist_variables(state.run_name) + time_variables(state.timestamp);
  const std::string path =
      join_path(strict_format(NameFormat(options.folder), dist_variables(state.run_name)),
                strict_format(NameFormat(options.filename), variables));
  trace->end_operators();
  if (!options.overwrite && local_store()->stat(path)) {
    trace.reset();
    logger.log_message("profiled until batch " + std::to_string(state.timestamp.batch) + ": " +
                       path + " exists and is kept; set overwrite to replace traces");
    return;
  }
  AppendFile(path, /*truncate=*/true).append(trace->text());
  trace.reset();
  saved_traces.push_back(path);
  logger.log_message("profiled until batch " + std::to_string(state.timestamp.batch) + ": " + path);
  if (options.remote_file_name) {
    logger.upload_file(
        {.remote_file_name = strict_format(NameFormat(*options.remote_file_name), variables),
         .file_path = path,
         .overwrite = options.overwrite});
  }
  remove_old_traces();
}

// Loggers have their own copy of a file that they upload.
void Profiler::Impl::remove_old_traces() {
  const int keep = options.num_traces_to_keep.value_or(-1);
  if (keep < 0) return;
  while (saved_traces.size() > static_cast<std::size_t>(keep)) {
    local_store()->remove(saved_traces.front());
    saved_traces.erase(saved_traces.begin());
  }
}

Profiler::Profiler(ProfilerOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Profiler::~Profiler() = default;
Profiler::Profiler(Profiler&&) noexcept = default;
Profiler& Profiler::operator=(Profiler&&) noexcept = default;

void Profiler::init(State& state, Logger& /*logger*/) {
  const auto is_profiler = [](const auto& callback) {
    return dynamic_cast<const Profiler*>(callback.get()) != nullptr;
  };
  if (std::ranges::count_if(state.callbacks, is_profiler) > 1) {
    throw UsageError("a Trainer has at most one Profiler");
  }
  impl_->trace.reset();
  impl_->saved_traces.clear();
  impl_->resumption_batch_idx = 0;
}

void Profiler::after_load(State& state, Logger& /*logger*/) {
  impl_->resumption_batch_idx = state.timestamp.batch_in_epoch;
}

void Profiler::before_dataloader(State& state, Logger& /*logger*/) {
  impl_->action = impl_->options.schedule(state, impl_->resumption_batch_idx);
  if (impl_->action == ProfilerAction::kSkip) {
    if (impl_->trace) impl_->trace->end_operators();
    return;
  }
  if (!impl_->trace) impl_->trace.emplace(dist::rank());
  impl_->batch_begin = Clock::now();
  if (impl_->action == ProfilerAction::kWarmup) return;
  const ProfilerOptions& options = impl_->options;
  impl_->trace->begin_operators({.record_shapes = options.torch_prof_record_shapes,
                                 .profile_memory = options.torch_prof_profile_memory,
                                 .with_flops = options.torch_prof_with_flops,
                                 .on_gpu = state.device == "gpu"});
}

void Profiler::batch_end(State& state, Logger& logger) {
  if (!impl_->trace || impl_->action == ProfilerAction::kSkip) return;
  record("batch " + std::to_string(state.timestamp.batch), impl_->batch_begin, Clock::now());
  if (impl_->action == ProfilerAction::kActiveAndSave) impl_->save(state, logger);
}

void Profiler::fit_end(State& state, Logger& logger) { close(state, logger); }

// Drops a cycle that has not come to its end.
void Profiler::close(State& /*state*/, Logger& /*logger*/) {
  impl_->trace.reset();
  impl_->action = ProfilerAction::kSkip;
}

void Profiler::record(const std::string& name, Clock::time_point begin,
                      Clock::time_point end) noexcept {
  if (!impl_->trace || impl_->action == ProfilerAction::kSkip) return;
  try {
    impl_->trace->add(name, begin, end);
  } catch (const std::exception&) {  // No memory for it.
  }
}

const std::vector<std::string>& Profiler::saved_traces() const { return impl_->saved_traces; }

}  // namespace cairn
