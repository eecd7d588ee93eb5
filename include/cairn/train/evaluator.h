// Evaluator: a labelled data loader with the metrics to compute on it and when
// (composer/core/evaluator.py).
#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cairn/train/data.h"
#include "cairn/train/interval.h"

namespace cairn {

//   .eval_dataloader = {{.label = "val", .dataloader = val},
//                       {.label = "hard", .dataloader = hard, .eval_interval = "5ep"}}
//
// Metrics are logged as metrics/<label>/<name>. Evaluating runs the whole loader without gradients,
// in evaluation mode; training waits for it.
struct Evaluator {
  std::string label = "eval";
  DataSpecOrLoader dataloader = {};
  // Fragments of metric names, matched anywhere in them without regard to case; absent: all. One
  // that is in no name is a UsageError of the Trainer.
  std::optional<std::vector<std::string>> metric_names = std::nullopt;
  // Absent: the Trainer's eval_subset_num_batches and eval_interval.
  std::optional<std::int64_t> subset_num_batches = std::nullopt;
  std::optional<Interval> eval_interval = std::nullopt;
  // Batches are computed in parts of so many samples, for what does not fit the memory. Absent:
  // whole.
  std::optional<std::int64_t> device_eval_microbatch_size = std::nullopt;
};

// None, a bare loader or DataSpec (label "eval", all metrics), or several Evaluators, whose labels
// must differ: metrics and their saved state are kept by them.
class EvaluatorList {
 public:
  // NOLINTBEGIN(google-explicit-constructor)
  EvaluatorList() = default;
  EvaluatorList(DataSpec dataloader);
  EvaluatorList(Evaluator evaluator);
  EvaluatorList(std::initializer_list<Evaluator> evaluators);
  EvaluatorList(std::vector<Evaluator> evaluators);
  template <class Loader>
  requires std::constructible_from<Handle<DataLoaderBase>, Loader &&> EvaluatorList(Loader&& loader)
      : EvaluatorList(Evaluator{.dataloader = std::forward<Loader>(loader)}) {}
  // The compiler shows the line of the deleted constructor.
  // clang-format off
  template <class Other>
  requires(!std::constructible_from<Handle<DataLoaderBase>, Other&&> &&
           !std::convertible_to<Other, DataSpec> &&
           !std::derived_from<std::remove_cvref_t<Other>, EvaluatorList>)
  EvaluatorList(Other&&) = delete;  // eval_dataloader: DataLoader(dataset, {...}), or Evaluators
  // clang-format on
  // NOLINTEND(google-explicit-constructor)

  // In the order in which they run.
  const std::vector<Evaluator>& items() const { return items_; }
  bool empty() const { return items_.empty(); }

 private:
  std::vector<Evaluator> items_;
};

}  // namespace cairn
