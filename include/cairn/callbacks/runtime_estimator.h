// RuntimeEstimator: logs how much longer a run will take (composer/callbacks/runtime_estimator.py).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cairn/callbacks/wall_time_unit.h"
#include "cairn/export.h"
#include "cairn/time.h"
#include "cairn/train/callback.h"
#include "cairn/train/empty_braces.h"
#include "cairn/word.h"

namespace CAIRN_PUBLIC cairn {

struct RuntimeEstimatorOptions {
  // Number of batches to train before the clock starts. The first batches are slower than the rest.
  int skip_batches = 1;
  // The unit of the estimate: "seconds", "minutes", "hours" or "days".
  Word<WallTimeUnit> time_unit = WallTimeUnit::kHours;
};

// Logs time/remaining_estimate after every batch, and once the hyperparameter
// time/remaining_estimate_unit. The estimate is the mean time of training so far for the rest of
// max_duration, and the mean time of each evaluator for the evaluations that are still to come, at
// their present frequency. An evaluator's first evaluation, which is slower, counts only as long as
// there is no other.
//
// Checkpoints hold where the clock started and the times of evaluation, so that a resumed run goes
// on with the estimate of the whole run. (Composer starts over.) A fit() with reset_time starts
// over.
class RuntimeEstimator final : public Callback {
 public:
  explicit RuntimeEstimator(const RuntimeEstimatorOptions& options = {});  // UsageError
  explicit RuntimeEstimator(EmptyBraces)  // RuntimeEstimator({.time_unit = "minutes"})
      : RuntimeEstimator(RuntimeEstimatorOptions()) {}
  template <detail::NeverMatches T>
  RuntimeEstimator(std::initializer_list<T>) = delete;

  std::string name() const override { return "RuntimeEstimator"; }
  bool needs_losses(const State& /*state*/) const override { return false; }
  bool may_change_batch() const override { return false; }
  void init(State& state, Logger& logger) override;
  void batch_start(State& state, Logger& logger) override;
  void batch_end(State& state, Logger& logger) override;
  void eval_end(State& state, Logger& logger) override;
  // {"start": timestamp or None,
  //  "evaluations": {label: {"count", "seconds", "first_seconds", "last": timestamp}}}
  Value state_dict() const override;
  void load_state_dict(const Value& state) override;

 private:
  struct Evaluations {
    std::int64_t count = 0;
    double seconds = 0;        // all of them, with the first
    double first_seconds = 0;  // the first
    Timestamp last = {};       // when the last one ended
  };
  static Evaluations evaluations_of(const Value& state);
  double remaining_evaluation(const State& state, double start_fraction) const;

  RuntimeEstimatorOptions options_;
  double unit_seconds_;
  int batches_seen_ = 0;            // by this object, before the clock started
  std::optional<Timestamp> start_;  // when the clock started
  std::vector<std::pair<std::string, Evaluations>> evaluations_;  // by the evaluator's label
};

}  // namespace cairn
