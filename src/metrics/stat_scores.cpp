// torchmetrics' Accuracy, Precision, Recall and F1Score for one, several or many labels. All of
// them count true and false positives and negatives of each class or label. They differ only in
// the score that follows from the counts.
#include <torch/torch.h>

#include <array>
#include <limits>

#include "cairn/error.h"
#include "cairn/metrics/classification.h"
#include "cairn/train/state_dict.h"

#include "metrics/answers.h"
#include "metrics/metric_state.h"

namespace cairn {
namespace {

using detail::AnswerTask;
using detail::Score;

constexpr std::array kCounts = {"tp", "fp", "tn", "fn"};

// [4, classes]: tp, fp, tn, fn.
at::Tensor count_classes(const Answers& answers, std::int64_t classes) {
  const at::Tensor is_right = answers.predicted.eq(answers.target);
  const at::Tensor tp = histogram(answers.target, answers.counted & is_right, classes);
  const at::Tensor fp = histogram(answers.predicted, answers.counted, classes) - tp;
  const at::Tensor fn = histogram(answers.target, answers.counted, classes) - tp;
  return torch::stack({tp, fp, answers.counted.sum() - tp - fp - fn, fn});
}

at::Tensor count_labels(const detail::AnswerRules& rules, const Answers& answers) {
  const at::Tensor of = confusion_matrix(rules, answers).flatten(1);  // tn, fp, fn, tp
  return torch::stack({of.select(1, 3), of.select(1, 1), of.select(1, 0), of.select(1, 2)});
}

struct ScoreCounts {
  at::Tensor tp, fp, tn, fn;
};

at::Tensor score_of(Score score, AnswerTask task, const ScoreCounts& of, double zero_division) {
  switch (score) {
    case Score::kAccuracy:
      if (task == AnswerTask::kMulticlass) return ratio(of.tp, of.tp + of.fn);
      return ratio(of.tp + of.tn, of.tp + of.fp + of.tn + of.fn);
    case Score::kPrecision:
      return ratio(of.tp, of.tp + of.fp, zero_division);
    case Score::kRecall:
      return ratio(of.tp, of.tp + of.fn, zero_division);
    case Score::kF1Score:
      break;
  }
  return ratio(2 * of.tp, 2 * of.tp + of.fp + of.fn, zero_division);
}

const char* score_name(Score score) {
  constexpr std::array kNames = {"Accuracy", "Precision", "Recall", "F1Score"};
  return kNames.at(static_cast<std::size_t>(score));
}

}  // namespace

StatScores::StatScores(detail::Score score, const BinaryScoreOptions& options)
    : StatScores(score,
                 {.task = AnswerTask::kBinary,
                  .threshold = options.threshold,
                  .ignore_index = options.ignore_index},
                 Average::kMicro, options.zero_division) {}

StatScores::StatScores(detail::Score score, const MulticlassScoreOptions& options)
    : StatScores(score,
                 {.task = AnswerTask::kMulticlass,
                  .classes = options.num_classes,
                  .top_k = options.top_k,
                  .ignore_index = options.ignore_index},
                 options.average, options.zero_division) {}

StatScores::StatScores(detail::Score score, const MultilabelScoreOptions& options)
    : StatScores(score,
                 {.task = AnswerTask::kMultilabel,
                  .classes = options.num_labels,
                  .threshold = options.threshold,
                  .ignore_index = options.ignore_index},
                 options.average, options.zero_division) {}

StatScores::StatScores(detail::Score score, const detail::AnswerRules& rules,
                       const Word<Average>& average, double zero_division)
    : score_(score), rules_(rules), zero_division_(zero_division) {
  check_rules(StatScores::name(), rules_);
  average_ = word_of(StatScores::name(), "average", average);
  if (zero_division != 0 && zero_division != 1) {
    throw UsageError(StatScores::name() + ": zero_division must be 0 or 1");
  }
}

std::string StatScores::name() const { return metric_name(rules_.task, score_name(score_)); }

std::unique_ptr<Metric> StatScores::clone() const { return std::make_unique<StatScores>(*this); }

void StatScores::reset() { counts_.reset(); }

void StatScores::update(const at::Tensor& outputs, const at::Tensor& target) {
  const torch::NoGradGuard no_grad;
  const Answers answers = read_answers(name(), rules_, outputs, target);
  const at::Tensor counts = rules_.task == AnswerTask::kMulticlass
                                ? count_classes(answers, rules_.classes)
                                : count_labels(rules_, answers);
  counts_ = plus(counts_, keeps_one_sum() ? counts.sum(1, /*keepdim=*/true) : counts);
}

at::Tensor StatScores::compute() {
  if (!counts_.defined()) return torch::full({}, std::numeric_limits<float>::quiet_NaN());
  const bool is_micro = average_ == Average::kMicro;
  const at::Tensor counts = is_micro ? counts_.sum(1) : counts_;
  const ScoreCounts of{counts[0], counts[1], counts[2], counts[3]};
  at::Tensor score = score_of(score_, rules_.task, of, zero_division_);
  if (average_ == Average::kMacro || average_ == Average::kWeighted) {
    at::Tensor weights = torch::ones_like(score);
    if (average_ == Average::kWeighted) {
      weights = (of.tp + of.fn).to(at::kFloat);
    } else if (rules_.task == AnswerTask::kMulticlass) {
      // torchmetrics' F1Score does not look at top_k here.
      const bool is_top_1 = rules_.top_k == 1 || score_ == Score::kF1Score;
      weights = (is_top_1 ? of.tp + of.fp + of.fn : of.tp + of.fn).ne(0).to(at::kFloat);
    }
    score = ratio(weights * score, weights.sum()).sum();
  }
  return score.masked_fill(counts.sum().eq(0), std::numeric_limits<float>::quiet_NaN());
}

Value StatScores::state_dict() const {
  const at::Tensor counts =
      counts_.defined() ? counts_
                        : torch::zeros({4, keeps_one_sum() ? 1 : rules_.classes}, at::kLong);
  Dict state = Dict::ordered({});
  for (std::size_t i = 0; i < kCounts.size(); ++i) {
    state.set(kCounts[i], view_of(counts[static_cast<std::int64_t>(i)].clone()));
  }
  return state;
}

void StatScores::load_state_dict(const Value& state) {
  const std::vector<std::int64_t> shape = {keeps_one_sum() ? 1 : rules_.classes};
  std::vector<at::Tensor> counts;
  for (const char* key : kCounts) {
    counts.push_back(metric_sum(name(), state, key, shape, at::kLong));
  }
  counts_ = torch::stack(counts);
}

}  // namespace cairn
