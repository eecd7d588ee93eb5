// Profiler: where the time of some batches goes, as a trace for chrome://tracing or
// https://ui.perfetto.dev (composer/profiler).
//
//   .profiler = Profiler({.schedule = cyclic_schedule({.wait = 1, .active = 2})}),
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cairn/export.h"
#include "cairn/train/callback.h"
#include "cairn/train/empty_braces.h"

namespace CAIRN_PUBLIC cairn {

// The profiler's part in a batch. kWarmup records the phases and markers. kActive also records
// libtorch's operators. kActiveAndSave also writes the trace at the end of the batch.
enum class ProfilerAction : std::uint8_t { kSkip, kWarmup, kActive, kActiveAndSave };

// Called before each batch is fetched. `resumption_batch_idx`: the batch in the epoch at which the
// run resumed; 0 in a run that began.
using ProfilerSchedule =
    std::function<ProfilerAction(const State& state, std::int64_t resumption_batch_idx)>;

// In batches.
struct CyclicScheduleOptions {
  std::int64_t skip_first = 0;  // at the start of each epoch, and after a resume
  std::int64_t wait = 0;        // skipped at the start of each cycle
  std::int64_t warmup = 1;
  std::int64_t active = 4;  // at least 1
  std::int64_t repeat = 1;  // cycles of each epoch; 0: as many as it has room for
};
// A cycle of `wait`, `warmup` and `active` batches. The trace is saved after the last batch of each
// cycle, or of the epoch. Throws UsageError for numbers below these minimums.
ProfilerSchedule cyclic_schedule(CyclicScheduleOptions options = {});

// Composer's defaults: schedule, JSONTraceHandler's arguments, TorchProfiler's arguments.
struct ProfilerOptions {
  ProfilerSchedule schedule = cyclic_schedule();
  std::string folder = "{run_name}/traces";                      // dist variables
  std::string filename = "ep{epoch}-ba{batch}-rank{rank}.json";  // dist and time variables
  // The name under which loggers upload the trace; nullopt: no uploads.
  std::optional<std::string> remote_file_name =
      "{run_name}/traces/ep{epoch}-ba{batch}-rank{rank}.json";
  // If false, a trace that exists already is kept, as of a start that ended early. (Composer
  // refuses a folder that has files.)
  bool overwrite = false;
  // Traces to keep on this machine; the oldest are removed first. nullopt, or Composer's -1: all.
  std::optional<int> num_traces_to_keep = std::nullopt;
  bool torch_prof_record_shapes = false;  // the shapes of operators' inputs
  bool torch_prof_profile_memory = true;  // each allocation, as an instant
  bool torch_prof_with_flops = true;      // estimated operations of products and convolutions
};

// A Trainer has at most one. Each rank writes a trace of its own, which has:
//  - the Trainer's phases: data, forward, backward, step, evaluation, saving;
//  - a span for each batch, and the markers of your code;
//  - libtorch's operators, on a GPU its kernels, too, if libtorch was built with Kineto.
//
// Used on the training thread only. Costs time in the batches that it records, and a call per event
// in the others. fit() throws what writing throws (StorageError).
class Profiler final : public Callback {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Profiler(ProfilerOptions options = {});
  explicit Profiler(EmptyBraces) : Profiler(ProfilerOptions()) {}
  ~Profiler() override;
  Profiler(Profiler&&) noexcept;
  Profiler& operator=(Profiler&&) noexcept;

  std::string name() const override { return "Profiler"; }
  bool needs_losses(const State& /*state*/) const override { return false; }
  bool may_change_batch() const override { return false; }
  // Throws UsageError if there is another Profiler.
  void init(State& state, Logger& logger) override;
  void after_load(State& state, Logger& logger) override;
  void before_dataloader(State& state, Logger& logger) override;
  void batch_end(State& state, Logger& logger) override;
  void fit_end(State& state, Logger& logger) override;
  void close(State& state, Logger& logger) override;

  // Records a span of this thread's time, if this batch is recorded. A span for which there is no
  // memory is dropped.
  void record(const std::string& name, Clock::time_point begin, Clock::time_point end) noexcept;

  // Records the span from its construction to its end.
  class Marker {
   public:
    Marker(Profiler& profiler, std::string name)
        : profiler_(profiler), name_(std::move(name)), begin_(Clock::now()) {}
    ~Marker() { profiler_.record(name_, begin_, Clock::now()); }
    Marker(const Marker&) = delete;
    Marker& operator=(const Marker&) = delete;

   private:
    Profiler& profiler_;
    std::string name_;
    Clock::time_point begin_;
  };
  // Measures a part of your code: const auto span = profiler->marker("augment");
  Marker marker(std::string name) { return {*this, std::move(name)}; }

  // Paths of the traces that this process has written and that still exist, oldest first.
  const std::vector<std::string>& saved_traces() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn
