#include <torch/torch.h>

#include "cairn/error.h"
#include "cairn/metrics/classification.h"
#include "cairn/train/state_dict.h"

#include "metrics/answers.h"
#include "metrics/metric_state.h"

namespace cairn {
namespace {

using detail::AnswerTask;

}  // namespace

ConfusionMatrix::ConfusionMatrix(const BinaryConfusionMatrixOptions& options)
    : ConfusionMatrix({.task = AnswerTask::kBinary,
                       .threshold = options.threshold,
                       .ignore_index = options.ignore_index},
                      options.normalize) {}

ConfusionMatrix::ConfusionMatrix(const MulticlassConfusionMatrixOptions& options)
    : ConfusionMatrix({.task = AnswerTask::kMulticlass,
                       .classes = options.num_classes,
                       .ignore_index = options.ignore_index},
                      options.normalize) {}

ConfusionMatrix::ConfusionMatrix(const MultilabelConfusionMatrixOptions& options)
    : ConfusionMatrix({.task = AnswerTask::kMultilabel,
                       .classes = options.num_labels,
                       .threshold = options.threshold,
                       .ignore_index = options.ignore_index},
                      options.normalize) {}

ConfusionMatrix::ConfusionMatrix(const detail::AnswerRules& rules, const Word<Normalize>& normalize)
    : rules_(rules) {
  check_rules(ConfusionMatrix::name(), rules_);
  normalize_ = word_of(ConfusionMatrix::name(), "normalize", normalize);
}

std::string ConfusionMatrix::name() const { return metric_name(rules_.task, "ConfusionMatrix"); }

std::unique_ptr<Metric> ConfusionMatrix::clone() const {
  return std::make_unique<ConfusionMatrix>(*this);
}

void ConfusionMatrix::reset() { confmat_.reset(); }

std::vector<std::int64_t> ConfusionMatrix::shape() const {
  if (rules_.task == AnswerTask::kBinary) return {2, 2};
  if (rules_.task == AnswerTask::kMultilabel) return {rules_.classes, 2, 2};
  return {rules_.classes, rules_.classes};
}

void ConfusionMatrix::update(const at::Tensor& outputs, const at::Tensor& target) {
  const torch::NoGradGuard no_grad;
  // torchmetrics drops what does not count before it looks for logits only here.
  const LogitsAmong among =
      rules_.task == AnswerTask::kBinary ? LogitsAmong::kCounted : LogitsAmong::kAll;
  const Answers answers = read_answers(name(), rules_, outputs, target, among);
  confmat_ = plus(confmat_, confusion_matrix(rules_, answers).reshape(shape()));
}

at::Tensor ConfusionMatrix::compute() {
  const at::Tensor matrix =
      confmat_.defined() ? confmat_.clone() : torch::zeros(shape(), at::kLong);
  switch (normalize_) {
    case Normalize::kNone:
      return matrix;
    case Normalize::kTrue:
      return ratio(matrix, matrix.sum({-1}, /*keepdim=*/true));
    case Normalize::kPred:
      return ratio(matrix, matrix.sum({-2}, /*keepdim=*/true));
    case Normalize::kAll:
      break;
  }
  return ratio(matrix, matrix.sum({-2, -1}, /*keepdim=*/true));
}

Value ConfusionMatrix::state_dict() const {
  const at::Tensor matrix = confmat_.defined() ? confmat_ : torch::zeros(shape(), at::kLong);
  return Dict::ordered({{"confmat", view_of(matrix)}});
}

void ConfusionMatrix::load_state_dict(const Value& state) {
  confmat_ = metric_sum(name(), state, "confmat", shape(), at::kLong);
}

}  // namespace cairn
