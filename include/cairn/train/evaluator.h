// Evaluator: a labelled data loader, the metrics to compute on it, and when
// (composer/core/evaluator.py).
#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cairn/export.h"
#include "cairn/train/data.h"
#include "cairn/train/interval.h"

namespace CAIRN_PUBLIC cairn {

//   .eval_dataloader = {{.label = "val", .dataloader = val},
//                       {.label = "hard", .dataloader = hard, .eval_interval = "5ep"}}
//
// Metrics are logged as metrics/<label>/<name>. An evaluation runs the whole loader without
// gradients, in evaluation mode; training waits for it.
struct Evaluator {
  std::string label = "eval";
  DataSpecOrLoader dataloader = {};
  // Fragments of metric names, matched anywhere in a name, ignoring case. nullopt: all metrics. If
  // a fragment matches no name, the Trainer throws UsageError.
  std::optional<std::vector<std::string>> metric_names = std::nullopt;
  // nullopt: the Trainer's eval_subset_num_batches and eval_interval.
  std::optional<std::int64_t> subset_num_batches = std::nullopt;
  std::optional<Interval> eval_interval = std::nullopt;
  // Batches are computed in parts of this many samples, if whole batches do not fit the memory.
  // nullopt: batches are not cut.
  std::optional<std::int64_t> device_eval_microbatch_size = std::nullopt;
};

// No evaluator, a bare loader or DataSpec (label "eval", all metrics), or several Evaluators. Their
// labels must differ, since metrics and their saved state are stored under the labels.
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
