#include "metrics/answers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "cairn/error.h"

namespace cairn {
namespace {

using detail::AnswerRules;
using detail::AnswerTask;

// The target among the best top_k classes, or else the best.
at::Tensor best_classes(const at::Tensor& scores, const at::Tensor& target, std::int64_t top_k) {
  if (top_k == 1) return scores.argmax(1);
  const at::Tensor best = std::get<1>(scores.topk(top_k, /*dim=*/1));
  return torch::where(best.eq(target.unsqueeze(1)).any(1), target, best.select(1, 0));
}

Answers read_classes(const std::string& metric, const AnswerRules& rules, const at::Tensor& outputs,
                     const at::Tensor& target) {
  const Targets targets = read_targets(metric, target, rules.classes, rules.ignore_index);
  const bool are_scores = outputs.dim() == target.dim() + 1 && outputs.is_floating_point() &&
                          outputs.size(1) == rules.classes &&
                          outputs.select(1, 0).sizes() == target.sizes();
  if (are_scores) {
    return {best_classes(outputs, targets.classes, rules.top_k).flatten(),
            targets.classes.flatten(), targets.counted.flatten()};
  }
  if (outputs.sizes() != target.sizes() || outputs.is_floating_point() || rules.top_k != 1) {
    refuse_shapes(metric, outputs, target,
                  "scores with num_classes in dimension 1, or (without top_k) classes");
  }
  const Targets classes = read_targets(metric, outputs, rules.classes, std::nullopt);
  return {classes.classes.flatten(), targets.classes.flatten(), targets.counted.flatten()};
}

// [samples, labels, ...] -> [samples and ..., labels]
at::Tensor by_label(const at::Tensor& tensor, const AnswerRules& rules) {
  if (rules.task == AnswerTask::kBinary) return tensor.reshape({-1, 1});
  return tensor.movedim(1, -1).reshape({-1, rules.classes});
}

Answers read_labels(const std::string& metric, const AnswerRules& rules, const at::Tensor& outputs,
                    const at::Tensor& target, LogitsAmong logits_among) {
  const bool has_labels =
      rules.task == AnswerTask::kBinary || (target.dim() >= 2 && target.size(1) == rules.classes);
  if (outputs.sizes() != target.sizes() || !has_labels) {
    refuse_shapes(
        metric, outputs, target,
        rules.task == AnswerTask::kBinary ? "the same shape" : "[samples, num_labels, ...]");
  }
  const Targets targets = read_targets(metric, target, 2, rules.ignore_index);
  at::Tensor predicted;
  if (outputs.is_floating_point()) {
    const at::Tensor among =
        logits_among == LogitsAmong::kAll ? torch::ones_like(targets.counted) : targets.counted;
    predicted = probabilities(outputs, among, rules.task).gt(rules.threshold).to(at::kLong);
  } else {
    predicted = read_targets(metric, outputs, 2, std::nullopt).classes;
  }
  return {by_label(predicted, rules), by_label(targets.classes, rules),
          by_label(targets.counted, rules)};
}

}  // namespace

std::string metric_name(AnswerTask task, const char* metric) {
  constexpr std::array kTasks = {"Binary", "Multiclass", "Multilabel"};
  return std::string(kTasks.at(static_cast<std::size_t>(task))) + metric;
}

void check_rules(const std::string& metric, const AnswerRules& rules) {
  const auto refuse = [&](const std::string& why) { throw UsageError(metric + ": " + why); };
  const char* number = rules.task == AnswerTask::kMulticlass ? "num_classes" : "num_labels";
  if (rules.task != AnswerTask::kBinary && rules.classes < 2) {
    refuse(fmt::format("{} is {}; it must be 2 or more", number, rules.classes));
  }
  if (rules.top_k < 1 || rules.top_k > rules.classes) {
    refuse(fmt::format("top_k is {}; it must be from 1 to num_classes", rules.top_k));
  }
  if (!(rules.threshold >= 0 && rules.threshold <= 1)) {
    refuse(fmt::format("threshold is {}; it must be from 0 to 1", rules.threshold));
  }
}

Targets read_targets(const std::string& metric, const at::Tensor& target, std::int64_t classes,
                     std::optional<std::int64_t> ignore_index) {
  const at::Tensor counted = ignore_index
                                 ? target.ne(*ignore_index)
                                 : torch::ones_like(target, target.options().dtype(at::kBool));
  const at::Tensor kept = target.to(at::kLong).masked_fill(~counted, 0);
  if (kept.device().is_cpu() && kept.numel() > 0) {
    if (target.is_floating_point() && !(target.eq(kept) | ~counted).all().item<bool>()) {
      throw UsageError(metric + ": expected classes, found numbers that are not whole");
    }
    const auto lowest = kept.min().item<std::int64_t>();
    const auto highest = kept.max().item<std::int64_t>();
    if (lowest < 0 || highest >= classes) {
      throw UsageError(fmt::format("{}: expected whole numbers from 0 to {}, found {}", metric,
                                   classes - 1, lowest < 0 ? lowest : highest));
    }
  }
  return {counted, kept};
}

Answers read_answers(const std::string& metric, const AnswerRules& rules, const at::Tensor& outputs,
                     const at::Tensor& target, LogitsAmong logits_among) {
  return rules.task == AnswerTask::kMulticlass
             ? read_classes(metric, rules, outputs, target)
             : read_labels(metric, rules, outputs, target, logits_among);
}

at::Tensor probabilities(const at::Tensor& scores, const at::Tensor& counted, AnswerTask task) {
  const at::Tensor are_logits = ((scores.lt(0) | scores.gt(1)) & counted).any();
  return torch::where(
      are_logits, task == AnswerTask::kMulticlass ? scores.softmax(1) : scores.sigmoid(), scores);
}

at::Tensor histogram(const at::Tensor& index, const at::Tensor& counted, std::int64_t size) {
  // bincount() would wait for the device.
  return torch::zeros({size}, index.options().dtype(at::kLong))
      .index_add_(0, index.flatten(), counted.to(at::kLong).flatten());
}

at::Tensor confusion_matrix(const AnswerRules& rules, const Answers& answers) {
  const std::int64_t n = rules.classes;
  if (rules.task == AnswerTask::kMulticlass) {
    return histogram(answers.target * n + answers.predicted, answers.counted, n * n)
        .reshape({n, n});
  }
  const at::Tensor label = torch::arange(n, answers.target.options());
  return histogram(label * 4 + answers.target * 2 + answers.predicted, answers.counted, n * 4)
      .reshape({n, 2, 2});
}

at::Tensor ratio(const at::Tensor& a, const at::Tensor& b, double otherwise) {
  const at::Tensor quotient = a.to(at::kFloat) / b.to(at::kFloat);
  return torch::where(b.eq(0), torch::full_like(quotient, otherwise), quotient);
}

at::Tensor plus(const at::Tensor& total, const at::Tensor& addend) {
  return total.defined() ? total.to(addend.device()) + addend : addend.clone();
}

void refuse_shapes(const std::string& metric, const at::Tensor& outputs, const at::Tensor& target,
                   const char* expected) {
  throw UsageError(fmt::format("{}: outputs are {} [{}] and targets [{}]; expected {}", metric,
                               c10::toString(outputs.scalar_type()),
                               fmt::join(outputs.sizes(), ", "), fmt::join(target.sizes(), ", "),
                               expected));
}

void refuse_word(const std::string& metric, const char* option, const std::string& word,
                 std::span<const char* const> words) {
  throw UsageError(fmt::format("{}: {} cannot be \"{}\"; it is one of {}", metric, option, word,
                               fmt::join(words, ", ")));
}

}  // namespace cairn
