// Metrics that are a sum divided by a count: of regressions, and the mean of any loss. They have
// the names, definitions and state of torchmetrics and Composer. cairn.h leaves this header out.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cairn/export.h"
#include "cairn/train/empty_braces.h"
#include "cairn/train/metric.h"

namespace CAIRN_PUBLIC cairn {

// Derive a metric of your own that is a mean from MeanMetric: write clone(), and an update() that
// calls add(). Both accumulators stay on the device of the outputs, and no update waits for it. In
// a job of several processes both are added up.
class MeanMetric : public Metric {
 public:
  // The entries of state_dict(). A load takes only numbers of the same kind (whole or not).
  struct Layout {
    std::string name;   // of the metric
    std::string sum;    // the accumulator of what is averaged
    std::string count;  // the accumulator of what the sum is divided by, a scalar
    at::ScalarType sum_dtype = at::kFloat;
    at::ScalarType count_dtype = at::kLong;
    std::vector<std::int64_t> sum_shape = {};
  };

  std::string name() const override { return layout_.name; }
  void reset() override;
  // sum / count. NaN before the first update.
  at::Tensor compute() override;
  Value state_dict() const override;
  void load_state_dict(const Value& state) override;

 protected:
  explicit MeanMetric(Layout layout) : layout_(std::move(layout)) {}
  // Adds to both accumulators. `sum` has the elements of sum_shape.
  void add(const at::Tensor& sum, const at::Tensor& count);
  void add(const at::Tensor& sum, std::int64_t count);

 private:
  Layout layout_;
  at::Tensor sum_;  // undefined before the first update, as is count_
  at::Tensor count_;
};

// The mean of the squared differences of outputs and targets, which have the same shape.
struct MeanSquaredErrorOptions {
  bool squared = true;  // false: the square root of the mean
  // Above 1, the outputs have shape [samples, num_outputs], and so many means are the value.
  std::int64_t num_outputs = 1;
};
class MeanSquaredError final : public MeanMetric {
 public:
  // Throws UsageError unless num_outputs is positive.
  explicit MeanSquaredError(MeanSquaredErrorOptions options = {});
  explicit MeanSquaredError(EmptyBraces) : MeanSquaredError(MeanSquaredErrorOptions()) {}
  std::unique_ptr<Metric> clone() const override;
  void update(const at::Tensor& outputs, const at::Tensor& target) override;
  at::Tensor compute() override;

 private:
  MeanSquaredErrorOptions options_;
};

// The mean of the absolute differences of outputs and targets, which have the same shape.
struct MeanAbsoluteErrorOptions {
  std::int64_t num_outputs = 1;  // as in MeanSquaredErrorOptions
};
class MeanAbsoluteError final : public MeanMetric {
 public:
  // Throws UsageError unless num_outputs is positive.
  explicit MeanAbsoluteError(MeanAbsoluteErrorOptions options = {});
  explicit MeanAbsoluteError(EmptyBraces) : MeanAbsoluteError(MeanAbsoluteErrorOptions()) {}
  std::unique_ptr<Metric> clone() const override;
  void update(const at::Tensor& outputs, const at::Tensor& target) override;

 private:
  std::int64_t num_outputs_;
};

// The mean over updates of a loss (Composer's LossMetric). A short last batch counts as much as a
// full one.
class LossMetric final : public MeanMetric {
 public:
  using LossFunction =
      std::function<at::Tensor(const at::Tensor& outputs, const at::Tensor& target)>;
  // `loss_function` returns a scalar. Throws UsageError if it is empty.
  explicit LossMetric(LossFunction loss_function);
  std::unique_ptr<Metric> clone() const override;
  void update(const at::Tensor& outputs, const at::Tensor& target) override;

 private:
  LossFunction loss_function_;
};

}  // namespace cairn
