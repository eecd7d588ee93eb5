// For "micro" accuracy torchmetrics counts tp = correct answers, fp = fn = wrong answers, and tn =
// the rest of num_classes answers per sample. All of them follow from the correct answers and the
// total. Only the correct answers are counted on the device, so neither an update nor state_dict()
// waits for the device.
#include <fmt/format.h>
#include <torch/torch.h>

#include <limits>

#include "cairn/error.h"
#include "cairn/metrics/metrics.h"
#include "cairn/train/state_dict.h"

#include "metrics/metric_state.h"

namespace cairn {

std::unique_ptr<Metric> Accuracy::clone() const {
  auto copy = std::make_unique<Accuracy>(*this);
  if (correct_.defined()) copy->correct_ = correct_.clone();
  return copy;
}

void Accuracy::reset() {
  correct_.reset();
  total_ = 0;
}

void Accuracy::update(const at::Tensor& outputs, const at::Tensor& target) {
  const torch::NoGradGuard no_grad;
  const bool are_scores = outputs.dim() == target.dim() + 1;
  if (!are_scores && outputs.sizes() != target.sizes()) {
    throw UsageError(
        fmt::format("MulticlassAccuracy: outputs have {} dimensions and targets {}; "
                    "expected scores with the classes in dimension 1, and class "
                    "indices",
                    outputs.dim(), target.dim()));
  }
  if (are_scores && !num_classes_) num_classes_ = outputs.size(1);
  const at::Tensor classes = are_scores ? outputs.argmax(1) : outputs;
  const at::Tensor correct = classes.eq(target).sum();
  correct_ = correct_.defined() ? correct_.to(correct.device()).add_(correct) : correct;
  total_ += target.numel();
}

at::Tensor Accuracy::compute() {
  if (total_ == 0) return torch::full({}, std::numeric_limits<float>::quiet_NaN());
  return correct_.to(at::kFloat) / static_cast<double>(total_);
}

Value Accuracy::state_dict() const {
  const at::Tensor tp =
      correct_.defined() ? correct_.reshape({1}).clone() : torch::zeros({1}, at::kLong);
  const at::Tensor wrong = tp.neg().add_(total_);
  // num_classes * total - tp - fp - fn
  const at::Tensor tn = tp.add((num_classes_.value_or(0) - 2) * total_);
  return Dict::ordered({{"tp", view_of(tp)},
                        {"fp", view_of(wrong)},
                        {"tn", view_of(tn)},
                        {"fn", view_of(wrong.clone())}});
}

void Accuracy::load_state_dict(const Value& state) {
  const std::int64_t tp = metric_count(name(), state, "tp", {1});
  const std::int64_t fp = metric_count(name(), state, "fp", {1});
  const std::int64_t tn = metric_count(name(), state, "tn", {1});
  const std::int64_t fn = metric_count(name(), state, "fn", {1});
  // From classes, unlike from scores, the metric does not learn the number of classes. state_dict()
  // then computes the true negatives for 0 classes.
  const bool knows_classes = tn + tp + fp + fn != 0;
  if (tp < 0 || fp < 0 || (tn < 0 && knows_classes) || fp != fn) {
    throw MismatchError(
        fmt::format("the saved state of metric MulticlassAccuracy contradicts "
                    "itself: tp {}, fp {}, tn {}, fn {}",
                    tp, fp, tn, fn));
  }
  correct_ = torch::full({}, tp, at::kLong);
  total_ = tp + fn;
  if (!num_classes_ && total_ > 0 && knows_classes) num_classes_ = (tn + tp + fp + fn) / total_;
}

}  // namespace cairn
