#include <torch/torch.h>

#include <limits>

#include "cairn/metrics/metrics.h"
#include "cairn/train/model.h"
#include "cairn/train/state_dict.h"

#include "metrics/answers.h"
#include "metrics/metric_state.h"

namespace cairn {

std::unique_ptr<Metric> CrossEntropy::clone() const {
  return std::make_unique<CrossEntropy>(*this);
}

void CrossEntropy::reset() {
  sum_loss_.reset();
  total_batches_ = 0;
}

void CrossEntropy::update(const at::Tensor& outputs, const at::Tensor& target) {
  const torch::NoGradGuard no_grad;
  const bool are_indices = outputs.dim() == target.dim() + 1;
  const at::Tensor loss =
      are_indices ? at::cross_entropy_loss(outputs, target, {}, at::Reduction::Mean, ignore_index_)
                  : soft_cross_entropy(outputs, target);
  sum_loss_ = plus(sum_loss_, loss.to(at::kFloat));
  ++total_batches_;
}

at::Tensor CrossEntropy::compute() {
  if (total_batches_ == 0) return torch::full({}, std::numeric_limits<float>::quiet_NaN());
  return sum_loss_ / static_cast<double>(total_batches_);
}

Value CrossEntropy::state_dict() const {
  const at::Tensor sum = sum_loss_.defined() ? sum_loss_ : torch::zeros({}, at::kFloat);
  return Dict::ordered({{"sum_loss", view_of(sum)},
                        {"total_batches", view_of(torch::full({}, total_batches_, at::kLong))}});
}

void CrossEntropy::load_state_dict(const Value& state) {
  const at::Tensor sum_loss = metric_entry(name(), state, "sum_loss", {});
  total_batches_ = metric_count(name(), state, "total_batches", {});
  sum_loss_ = sum_loss.to(at::kFloat);
}

}  // namespace cairn
