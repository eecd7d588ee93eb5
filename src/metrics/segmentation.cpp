#include "cairn/metrics/segmentation.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <cmath>
#include <limits>

#include "cairn/error.h"
#include "cairn/train/state_dict.h"

#include "metrics/answers.h"
#include "metrics/metric_state.h"

namespace cairn {
namespace {

at::Tensor zeros_unless(const at::Tensor& sum, std::int64_t size, at::ScalarType dtype) {
  return sum.defined() ? sum : torch::zeros({size}, dtype);
}

void check_classes(const char* metric, std::int64_t num_classes) {
  if (num_classes >= 1) return;
  throw UsageError(fmt::format("{}: num_classes is {}; it must be positive", metric, num_classes));
}

// Throws UsageError unless outputs are [samples, classes, ...] and targets [samples, ...].
void check_shapes(const char* metric, const at::Tensor& outputs, const at::Tensor& target,
                  std::int64_t classes) {
  const bool fit = outputs.dim() == target.dim() + 1 && target.dim() >= 1 &&
                   outputs.size(1) == classes && outputs.select(1, 0).sizes() == target.sizes();
  if (fit) return;
  refuse_shapes(metric, outputs, target,
                fmt::format("scores with {} classes in dimension 1, and classes", classes).c_str());
}

}  // namespace

MIoU::MIoU(MIoUOptions options) : options_(options) { check_classes("MIoU", options_.num_classes); }

std::unique_ptr<Metric> MIoU::clone() const { return std::make_unique<MIoU>(*this); }

void MIoU::reset() {
  total_intersect_.reset();
  total_union_.reset();
}

void MIoU::update(const at::Tensor& outputs, const at::Tensor& target) {
  const torch::NoGradGuard no_grad;
  const std::int64_t classes = options_.num_classes;
  check_shapes("MIoU", outputs, target, classes);
  const Targets targets = read_targets("MIoU", target, classes, options_.ignore_index);
  const at::Tensor predicted = outputs.argmax(1);
  const at::Tensor is_right = targets.counted & predicted.eq(targets.classes);
  const at::Tensor intersect = histogram(targets.classes, is_right, classes);
  const at::Tensor both = histogram(predicted, targets.counted, classes) +
                          histogram(targets.classes, targets.counted, classes);
  total_intersect_ = plus(total_intersect_, intersect.to(at::kDouble));
  total_union_ = plus(total_union_, (both - intersect).to(at::kDouble));
}

at::Tensor MIoU::compute() {
  if (!total_union_.defined()) return torch::full({}, std::numeric_limits<float>::quiet_NaN());
  return 100 * (total_intersect_ / total_union_).nanmean();  // 0 / 0: the class does not occur
}

Value MIoU::state_dict() const {
  const std::int64_t classes = options_.num_classes;
  return Dict::ordered(
      {{"total_intersect", view_of(zeros_unless(total_intersect_, classes, at::kDouble))},
       {"total_union", view_of(zeros_unless(total_union_, classes, at::kDouble))}});
}

void MIoU::load_state_dict(const Value& state) {
  const Dims shape = {options_.num_classes};
  const at::Tensor intersect = metric_sum("MIoU", state, "total_intersect", shape, at::kDouble);
  total_union_ = metric_sum("MIoU", state, "total_union", shape, at::kDouble);
  total_intersect_ = intersect;
}

Dice::Dice(DiceOptions options) : num_classes_(options.num_classes) {
  check_classes("Dice", num_classes_);
}

std::unique_ptr<Metric> Dice::clone() const { return std::make_unique<Dice>(*this); }

void Dice::reset() {
  n_updates_.reset();
  dice_.reset();
}

void Dice::update(const at::Tensor& outputs, const at::Tensor& target) {
  const torch::NoGradGuard no_grad;
  const std::int64_t classes = num_classes_ + 1;
  check_shapes("Dice", outputs, target, classes);
  const Targets targets = read_targets("Dice", target, classes, std::nullopt);
  const at::Tensor predicted = outputs.argmax(1);
  const auto count = [&](const at::Tensor& index, const at::Tensor& counted) {
    return histogram(index, counted, classes).slice(0, 1);  // without the background
  };
  const at::Tensor tp = count(predicted, predicted.eq(targets.classes));
  const at::Tensor answers = count(predicted, targets.counted);
  const at::Tensor present = count(targets.classes, targets.counted);
  dice_ = plus(dice_, torch::where(present.eq(0), answers.eq(0).to(at::kFloat),
                                   ratio(2 * tp, answers + present)));
  n_updates_ = plus(n_updates_, torch::ones({1}, dice_.options()));
}

at::Tensor Dice::compute() {
  if (!dice_.defined()) return torch::full({}, std::numeric_limits<float>::quiet_NaN());
  const double percent = (100 * dice_ / n_updates_).mean().item<double>();
  // Exact for a float32 and half to even, as Python's round().
  return torch::full({}, std::nearbyint(percent * 100) / 100, at::kDouble);
}

Value Dice::state_dict() const {
  return Dict::ordered({{"n_updates", view_of(zeros_unless(n_updates_, 1, at::kFloat))},
                        {"dice", view_of(zeros_unless(dice_, num_classes_, at::kFloat))}});
}

void Dice::load_state_dict(const Value& state) {
  const at::Tensor updates = metric_sum("Dice", state, "n_updates", {1}, at::kFloat);
  dice_ = metric_sum("Dice", state, "dice", {num_classes_}, at::kFloat);
  n_updates_ = updates;
}

}  // namespace cairn
