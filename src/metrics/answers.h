// Reads answers from a classifier's outputs as torchmetrics does, and counts them. Nothing here
// waits for a device.
#pragma once

#include <torch/torch.h>

#include <span>
#include <string>

#include "cairn/metrics/classification.h"

namespace cairn {

// torchmetrics' name of a metric of that task: "MulticlassF1Score".
std::string metric_name(detail::AnswerTask task, const char* metric);

// The enumerator of an option. Throws UsageError naming the metric and the option if the text is
// none of the words.
template <class Enum>
Enum word_of(const std::string& metric, const char* option, const Word<Enum>& word);

// Throws UsageError unless the options make sense.
void check_rules(const std::string& metric, const detail::AnswerRules& rules);

// Whether each target counts; then the targets, with 0 for those that do not.
struct Targets {
  at::Tensor counted;  // bool, the target's shape
  at::Tensor classes;  // int64
};
// Throws UsageError for a target that counts and is not in [0, classes), if it is on the CPU.
Targets read_targets(const std::string& metric, const at::Tensor& target, std::int64_t classes,
                     std::optional<std::int64_t> ignore_index);

// Multiclass: [samples]. Otherwise [samples, labels], with one label for kBinary.
struct Answers {
  at::Tensor predicted;  // int64
  at::Tensor target;     // int64
  at::Tensor counted;    // bool
};
// The scores that decide whether all of them are logits.
enum class LogitsAmong : std::uint8_t { kAll, kCounted };
// Throws UsageError for shapes that do not fit.
Answers read_answers(const std::string& metric, const detail::AnswerRules& rules,
                     const at::Tensor& outputs, const at::Tensor& target,
                     LogitsAmong logits_among = LogitsAmong::kAll);

// `scores` if all of those that count are in [0, 1]; otherwise they are logits, and the result is
// their sigmoid, or for kMulticlass their softmax over dimension 1. `counted` broadcasts.
at::Tensor probabilities(const at::Tensor& scores, const at::Tensor& counted,
                         detail::AnswerTask task);

// How often each of 0 ... size - 1 is in `index` where `counted` is true: int64 [size].
at::Tensor histogram(const at::Tensor& index, const at::Tensor& counted, std::int64_t size);
// Row target, column answer: [classes, classes], for labels [labels, 2, 2].
at::Tensor confusion_matrix(const detail::AnswerRules& rules, const Answers& answers);

// a / b, and `otherwise` where b is 0.
at::Tensor ratio(const at::Tensor& a, const at::Tensor& b, double otherwise = 0);

// `total` + `addend`, on the device of `addend`. `total` may be undefined. A new tensor, so that
// states and clones that share `total` keep their moment.
at::Tensor plus(const at::Tensor& total, const at::Tensor& addend);

[[noreturn]] void refuse_shapes(const std::string& metric, const at::Tensor& outputs,
                                const at::Tensor& target, const char* expected);

// --- Templates -----------------------------------------------------------------------------------

// `words`: those that there are.
[[noreturn]] void refuse_word(const std::string& metric, const char* option,
                              const std::string& word, std::span<const char* const> words);

template <class Enum>
Enum word_of(const std::string& metric, const char* option, const Word<Enum>& word) {
  const auto value = word.value();
  if (!value) refuse_word(metric, option, word, WordsOf<Enum>::kAll);
  return *value;
}

}  // namespace cairn
