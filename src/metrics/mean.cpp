#include "cairn/metrics/mean.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <limits>

#include "cairn/error.h"
#include "cairn/train/state_dict.h"

#include "metrics/answers.h"
#include "metrics/metric_state.h"

namespace cairn {
namespace {

std::int64_t checked_outputs(const char* metric, std::int64_t num_outputs) {
  if (num_outputs >= 1) return num_outputs;
  throw UsageError(fmt::format("{}: num_outputs is {}; it must be positive", metric, num_outputs));
}

// Differences of shape [samples, num_outputs].
at::Tensor differences(const std::string& metric, const at::Tensor& outputs,
                       const at::Tensor& target, std::int64_t num_outputs) {
  const bool fit = outputs.sizes() == target.sizes() &&
                   (num_outputs == 1 || (outputs.dim() == 2 && outputs.size(1) == num_outputs));
  if (!fit) {
    refuse_shapes(metric, outputs, target,
                  num_outputs == 1 ? "the same shape" : "[samples, num_outputs]");
  }
  return (outputs - target).reshape({-1, num_outputs});
}

}  // namespace

void MeanMetric::reset() {
  sum_.reset();
  count_.reset();
}

void MeanMetric::add(const at::Tensor& sum, const at::Tensor& count) {
  sum_ = plus(sum_, sum.detach().to(layout_.sum_dtype).reshape(layout_.sum_shape));
  count_ = plus(count_, count.detach().to(layout_.count_dtype).reshape({}));
}

void MeanMetric::add(const at::Tensor& sum, std::int64_t count) {
  add(sum, torch::full({}, count, sum.options().dtype(layout_.count_dtype)));
}

at::Tensor MeanMetric::compute() {
  if (!sum_.defined()) return torch::full({}, std::numeric_limits<float>::quiet_NaN());
  const at::Tensor mean = sum_ / count_;
  return mean.numel() == 1 ? mean.reshape({}) : mean;
}

Value MeanMetric::state_dict() const {
  const at::Tensor sum = sum_.defined() ? sum_ : torch::zeros(layout_.sum_shape, layout_.sum_dtype);
  const at::Tensor count = count_.defined() ? count_ : torch::zeros({}, layout_.count_dtype);
  return Dict::ordered({{layout_.sum, view_of(sum)}, {layout_.count, view_of(count)}});
}

void MeanMetric::load_state_dict(const Value& state) {
  const std::string& metric = layout_.name;
  // torchmetrics before 1.5 keeps the sum of one output as a scalar.
  const Value* saved = state.is_dict() ? state.find(layout_.sum) : nullptr;
  const bool is_scalar = saved != nullptr && saved->is_tensor() &&
                         saved->as_tensor().shape.empty() && layout_.sum_shape == Dims{1};
  const at::Tensor sum = metric_sum(metric, state, layout_.sum.c_str(),
                                    is_scalar ? Dims{} : layout_.sum_shape, layout_.sum_dtype);
  count_ = metric_sum(metric, state, layout_.count.c_str(), {}, layout_.count_dtype);
  sum_ = sum.reshape(layout_.sum_shape);
}

MeanSquaredError::MeanSquaredError(MeanSquaredErrorOptions options)
    : MeanMetric({.name = "MeanSquaredError",
                  .sum = "sum_squared_error",
                  .count = "total",
                  .sum_shape = {checked_outputs("MeanSquaredError", options.num_outputs)}}),
      options_(options) {}

std::unique_ptr<Metric> MeanSquaredError::clone() const {
  return std::make_unique<MeanSquaredError>(*this);
}

void MeanSquaredError::update(const at::Tensor& outputs, const at::Tensor& target) {
  const torch::NoGradGuard no_grad;
  const at::Tensor each = differences(name(), outputs, target, options_.num_outputs);
  add((each * each).sum(0), each.size(0));
}

at::Tensor MeanSquaredError::compute() {
  const at::Tensor mean = MeanMetric::compute();
  return options_.squared ? mean : mean.sqrt();
}

MeanAbsoluteError::MeanAbsoluteError(MeanAbsoluteErrorOptions options)
    : MeanMetric({.name = "MeanAbsoluteError",
                  .sum = "sum_abs_error",
                  .count = "total",
                  .sum_shape = {checked_outputs("MeanAbsoluteError", options.num_outputs)}}),
      num_outputs_(options.num_outputs) {}

std::unique_ptr<Metric> MeanAbsoluteError::clone() const {
  return std::make_unique<MeanAbsoluteError>(*this);
}

void MeanAbsoluteError::update(const at::Tensor& outputs, const at::Tensor& target) {
  const torch::NoGradGuard no_grad;
  const at::Tensor each = differences(name(), outputs, target, num_outputs_);
  add(each.abs().sum(0), each.size(0));
}

LossMetric::LossMetric(LossFunction loss_function)
    : MeanMetric({.name = "LossMetric", .sum = "sum_loss", .count = "total_batches"}),
      loss_function_(std::move(loss_function)) {
  if (!loss_function_) throw UsageError("LossMetric: there is no loss function");
}

std::unique_ptr<Metric> LossMetric::clone() const { return std::make_unique<LossMetric>(*this); }

void LossMetric::update(const at::Tensor& outputs, const at::Tensor& target) {
  const torch::NoGradGuard no_grad;
  const at::Tensor loss = loss_function_(outputs, target);
  if (loss.numel() != 1) throw UsageError("LossMetric: the loss is not a scalar");
  add(loss, 1);
}

}  // namespace cairn
