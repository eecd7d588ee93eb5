// Metric: what is measured over the batches of an evaluation (torchmetrics' Metric).
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cairn/train/handle.h"
#include "cairn/value.h"

namespace cairn {

// A metric of your own derives from it and keeps sums, not values: batches may be many. It is given
// to classifier() (train_metrics, val_metrics) or by Model::get_metrics(); the Trainer resets it
// before each batch of training and each evaluation, updates it without gradients, and logs what it
// computes as metrics/<label>/<name>. Not thread-safe.
class Metric {
 public:
  virtual ~Metric() = default;

  // Key under which it is logged and saved: Python's class name, "MulticlassAccuracy".
  virtual std::string name() const = 0;
  // Another one with the same options; each evaluator has its own.
  virtual std::unique_ptr<Metric> clone() const = 0;

  virtual void reset() = 0;  // as if it had seen nothing
  // `outputs` as the model gave them, `target` as the batch has it.
  virtual void update(const at::Tensor& outputs, const at::Tensor& target) = 0;
  // Of all updates since reset(); a scalar. NaN before the first.
  virtual at::Tensor compute() = 0;

  // torchmetrics' state: names of the accumulators -> tensors, in Python's order.
  virtual Value state_dict() const = 0;
  // MismatchError naming what does not fit; nothing is changed then.
  virtual void load_state_dict(const Value& state) = 0;

  // In a job of several processes: the state_dict() of all that the ranks saw, from those of each.
  // By default every tensor is the sum of the ranks' (torchmetrics' dist_reduce_fx="sum");
  // UnsupportedError for states that have none. What it gives is loaded into a clone, which
  // computes.
  virtual Value merge_states(const std::vector<Value>& states) const;
};

// Metrics by key, in order. The key, usually name(), is what they are logged and saved under.
using Metrics = std::vector<std::pair<std::string, std::shared_ptr<Metric>>>;

}  // namespace cairn
