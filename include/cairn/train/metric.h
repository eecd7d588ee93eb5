// Metric: a value measured over the batches of an evaluation (torchmetrics' Metric).
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cairn/export.h"
#include "cairn/train/handle.h"
#include "cairn/value.h"

namespace CAIRN_PUBLIC cairn {

// Derive your own metric from Metric, and keep sums, not values, since there may be many batches.
// Pass it to classifier() (train_metrics, val_metrics), or return it from Model::get_metrics(). The
// Trainer resets it before each training batch and each evaluation, updates it without gradients,
// and logs the result as metrics/<label>/<name>. Not thread-safe.
class Metric {
 public:
  virtual ~Metric() = default;

  // The key under which the metric is logged and saved: Python's class name, "MulticlassAccuracy".
  virtual std::string name() const = 0;
  // A new metric with the same options. Each evaluator has its own.
  virtual std::unique_ptr<Metric> clone() const = 0;

  virtual void reset() = 0;  // back to the state before any update
  // `outputs` are the model's, `target` is the batch's.
  virtual void update(const at::Tensor& outputs, const at::Tensor& target) = 0;
  // The value over all updates since reset(): a scalar, NaN before the first update. A value of
  // several elements, such as a matrix, is logged as lists, and kept in State::metric_values as a
  // tensor.
  virtual at::Tensor compute() = 0;

  // torchmetrics' state: names of the accumulators -> tensors, in Python's order.
  virtual Value state_dict() const = 0;
  // Throws MismatchError naming what does not fit; then nothing is changed.
  virtual void load_state_dict(const Value& state) = 0;

  // In a job of several processes: merges the state_dict() of each rank into that of all samples.
  // By default every tensor is the sum over the ranks (torchmetrics' dist_reduce_fx="sum"). Throws
  // UnsupportedError for states without a sum. The result is loaded into a clone, which computes
  // the value.
  virtual Value merge_states(const std::vector<Value>& states) const;
};

// Metrics by key, in order. Metrics are logged and saved under the key, usually name().
using Metrics = std::vector<std::pair<std::string, std::shared_ptr<Metric>>>;

}  // namespace cairn
