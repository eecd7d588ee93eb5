// Evaluator: a labelled data loader with the metrics to compute on it and when
// (composer/core/evaluator.py).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cairn/train/data.h"
#include "cairn/train/interval.h"

namespace cairn {

struct Evaluator {
  std::string label = "eval";
  DataSpecOrLoader dataloader = {};
  // Fragments of metric names, matched anywhere in them without regard to case; absent: all.
  std::optional<std::vector<std::string>> metric_names = std::nullopt;
  std::optional<std::int64_t> subset_num_batches = std::nullopt;           // absent: the Trainer's
  std::optional<Interval> eval_interval = std::nullopt;                    // absent: the Trainer's
  std::optional<std::int64_t> device_eval_microbatch_size = std::nullopt;  // absent: batch size
};

// None, a bare loader or DataSpec (label "eval", all metrics), or several Evaluators.
class EvaluatorList {
 public:
  // NOLINTBEGIN(google-explicit-constructor)
  EvaluatorList() = default;
  EvaluatorList(DataSpec dataloader) { items_.push_back({.dataloader = std::move(dataloader)}); }
  EvaluatorList(Evaluator evaluator) { items_.push_back(std::move(evaluator)); }
  EvaluatorList(std::initializer_list<Evaluator> evaluators) : items_(evaluators) {}
  EvaluatorList(std::vector<Evaluator> evaluators) : items_(std::move(evaluators)) {}
  template <class Loader>
  requires std::constructible_from<Handle<DataLoaderBase>, Loader &&> EvaluatorList(
      Loader&& loader) {
    items_.emplace_back();
    items_.back().dataloader = std::forward<Loader>(loader);
  }
  // NOLINTEND(google-explicit-constructor)

  const std::vector<Evaluator>& items() const { return items_; }
  bool empty() const { return items_.empty(); }

 private:
  std::vector<Evaluator> items_;
};

}  // namespace cairn
