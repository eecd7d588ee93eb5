// EvalLoop: the evaluators, when they are due, and the loop over their data.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "cairn/train/options.h"

#include "train/loop/loop_context.h"

namespace cairn {

struct EvalDefaults {
  Interval interval = 1;
  std::int64_t subset_num_batches = -1;
};

class EvalLoop {
 public:
  explicit EvalLoop(LoopContext& context) : context_(context) {}

  // Replaces the Trainer's evaluators, with fresh metrics. Throws UsageError for the conflicts of
  // evaluator_conflicts().
  void set_evaluators(const EvaluatorList& evaluators, const EvalDefaults& defaults);

  // Runs the evaluators whose interval is due at `event`, between eval_before_all and
  // eval_after_all. Returns whether there were any.
  bool run_due(Event event);

  // Trainer::eval(): runs all of the Trainer's evaluators, or `others`, regardless of their
  // intervals.
  void run_standalone(const std::optional<EvaluatorList>& others, std::int64_t subset_num_batches);

 private:
  void run(Evaluator& evaluator, const Metrics& metrics);
  struct Round {
    std::int64_t samples = 0;
    std::int64_t tokens = 0;
    std::chrono::microseconds duration{};
  };
  Round run_batch(const Evaluator& evaluator, const Metrics& metrics);
  void remove_repeated(const DataSpec& spec);
  bool has_any_rank(bool batch) const;
  void advance(Round round);

  LoopContext& context_;
  std::vector<std::function<bool(const State&, Event)>> is_due_;  // By evaluator.
};

// The conflicts in a list of evaluators, a sentence each: equal labels, no loader, an unsized
// loader without a subset.
std::vector<std::string> evaluator_conflicts(const EvaluatorList& evaluators,
                                             std::int64_t default_subset);

}  // namespace cairn
