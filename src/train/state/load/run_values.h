// Loads the plain values and the metrics of a run. Each of the two loads is planned first, which
// changes nothing, and applied if everything fits.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cairn/train/state.h"
#include "cairn/value.h"

#include "train/state/load/load_findings.h"
#include "train/state/load/object_loads.h"

namespace cairn {

// The time, the seed, the name of the run, and the dataset's state.
class RunValuesLoad {
 public:
  // `saved`: the "state" of a checkpoint.
  void plan(const Value& saved, const State& state, LoadFindings& findings);
  // The planned time; nullopt if the checkpoint has none.
  const std::optional<Timestamp>& timestamp() const { return timestamp_; }
  // Sets State::schedulers_step_after_time, which is known only after the schedulers have their
  // state.
  void set_steps_after_time(bool steps) { steps_after_time_ = steps; }
  // Call it once.
  void apply(State& state) noexcept;

 private:
  std::optional<Timestamp> timestamp_;
  std::optional<FitCalls> fit_calls_;
  bool steps_after_time_ = false;
  std::optional<std::int64_t> rank_zero_seed_;
  std::optional<std::string> run_name_;
  std::optional<Value> dataset_state_;
};

// The metrics, and their last computed values.
class MetricsLoad {
 public:
  // `saved`: the "state" of a checkpoint. Tries each metric's state on a copy of the metric.
  void plan(const Value& saved, const State& state, LoadFindings& findings);
  // Loads the metrics themselves, after their copies accepted the states.
  void load(ObjectLoads& loads) const;
  // Makes what apply() needs. Throws std::bad_alloc.
  void prepare(const State& state);
  // Call it once, after prepare().
  void apply(State& state) noexcept { state.metric_values = std::move(all_values_); }

 private:
  void plan_group(const std::string& label, const Metrics& metrics, const Value* saved,
                  LoadFindings& findings);

  std::vector<std::pair<std::shared_ptr<Metric>, Value>> states_;
  std::vector<std::pair<std::string, std::pair<std::string, Value>>> values_;
  Dict all_values_;
};

}  // namespace cairn
