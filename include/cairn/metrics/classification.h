// torchmetrics' metrics of classifiers, with its names, definitions and state.
// cairn/metrics/metrics.h has the two that classifier() uses by default. cairn.h leaves this header
// out.
//
// - Binary: each target is 0 or 1, and outputs have the shape of the targets.
// - Multiclass: each target is one of several classes. Outputs are scores with the classes in
// dimension 1, or, except for AUROC, classes with the shape of the targets.
// - Multilabel: a target for each label is 0 or 1. Outputs and targets have shape [samples, labels,
// ...].
//
// Binary and multilabel outputs of a floating type are probabilities, or logits if one of them is
// outside of [0, 1]. Outputs of another type are 0 or 1.
//
// The counts stay on the device of the outputs, and no update waits for it. On the CPU update()
// throws UsageError for a target that is no class. All constructors throw UsageError for options
// that do not fit.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cairn/export.h"
#include "cairn/train/empty_braces.h"
#include "cairn/train/metric.h"
#include "cairn/word.h"

namespace CAIRN_PUBLIC cairn {

// How the scores of the classes or labels become one value. kMicro counts all of them together.
// kMacro is the mean of the classes that occur. kWeighted weighs each class by its samples. kNone
// keeps the scores apart: the value is a tensor of them.
enum class Average : std::uint8_t { kMicro, kMacro, kWeighted, kNone };
template <>
struct WordsOf<Average> {
  static constexpr std::array kAll = {"micro", "macro", "weighted", "none"};
};

namespace detail {

enum class AnswerTask : std::uint8_t { kBinary, kMulticlass, kMultilabel };

// How a metric reads answers from outputs.
struct AnswerRules {
  AnswerTask task = AnswerTask::kBinary;
  std::int64_t classes = 1;  // or labels
  std::int64_t top_k = 1;
  double threshold = 0.5;
  std::optional<std::int64_t> ignore_index = std::nullopt;
};

enum class Score : std::uint8_t { kAccuracy, kPrecision, kRecall, kF1Score };

}  // namespace detail

// --- Accuracy, Precision, Recall, F1Score --------------------------------------------------------

struct BinaryScoreOptions {
  double threshold = 0.5;                                   // a higher probability is the answer 1
  std::optional<std::int64_t> ignore_index = std::nullopt;  // the target that does not count
  double zero_division = 0;  // the score where it is 0 / 0; Accuracy has no use for it
};
struct MulticlassScoreOptions {
  std::int64_t num_classes = 0;  // required
  std::int64_t top_k = 1;        // an answer is right if the target is among the best top_k
  Word<Average> average = Average::kMacro;
  std::optional<std::int64_t> ignore_index = std::nullopt;
  double zero_division = 0;
};
struct MultilabelScoreOptions {
  std::int64_t num_labels = 0;  // required
  double threshold = 0.5;
  Word<Average> average = Average::kMacro;
  std::optional<std::int64_t> ignore_index = std::nullopt;
  double zero_division = 0;
};

// Counts true and false positives and negatives of each class. The value is NaN until a sample
// counts (torchmetrics gives zero_division).
class StatScores : public Metric {
 public:
  std::string name() const override;
  std::unique_ptr<Metric> clone() const override;
  void reset() override;
  void update(const at::Tensor& outputs, const at::Tensor& target) override;
  at::Tensor compute() override;
  Value state_dict() const override;
  void load_state_dict(const Value& state) override;

 protected:
  StatScores(detail::Score score, const BinaryScoreOptions& options);
  StatScores(detail::Score score, const MulticlassScoreOptions& options);
  StatScores(detail::Score score, const MultilabelScoreOptions& options);

 private:
  StatScores(detail::Score score, const detail::AnswerRules& rules, const Word<Average>& average,
             double zero_division);
  // Whether the state has the sums over the classes.
  bool keeps_one_sum() const {
    return average_ == Average::kMicro && rules_.top_k == 1 &&
           rules_.task != detail::AnswerTask::kMultilabel;
  }

  detail::Score score_;
  detail::AnswerRules rules_;
  Average average_ = Average::kMicro;
  double zero_division_;
  at::Tensor counts_;  // int64 [4, classes or 1]: tp, fp, tn, fn; undefined before any update
};

template <detail::Score kScore>
class BinaryScore final : public StatScores {
 public:
  explicit BinaryScore(BinaryScoreOptions options = {}) : StatScores(kScore, options) {}
  explicit BinaryScore(EmptyBraces) : BinaryScore(BinaryScoreOptions()) {}
};
using BinaryAccuracy = BinaryScore<detail::Score::kAccuracy>;
using BinaryPrecision = BinaryScore<detail::Score::kPrecision>;
using BinaryRecall = BinaryScore<detail::Score::kRecall>;
using BinaryF1Score = BinaryScore<detail::Score::kF1Score>;

template <detail::Score kScore>
class MulticlassScore final : public StatScores {
 public:
  explicit MulticlassScore(const MulticlassScoreOptions& options) : StatScores(kScore, options) {}
};
using MulticlassAccuracy = MulticlassScore<detail::Score::kAccuracy>;
using MulticlassPrecision = MulticlassScore<detail::Score::kPrecision>;
using MulticlassRecall = MulticlassScore<detail::Score::kRecall>;
using MulticlassF1Score = MulticlassScore<detail::Score::kF1Score>;

template <detail::Score kScore>
class MultilabelScore final : public StatScores {
 public:
  explicit MultilabelScore(const MultilabelScoreOptions& options) : StatScores(kScore, options) {}
};
using MultilabelAccuracy = MultilabelScore<detail::Score::kAccuracy>;
using MultilabelPrecision = MultilabelScore<detail::Score::kPrecision>;
using MultilabelRecall = MultilabelScore<detail::Score::kRecall>;
using MultilabelF1Score = MultilabelScore<detail::Score::kF1Score>;

// --- ConfusionMatrix -----------------------------------------------------------------------------

// The divisor of the matrix. kTrue: the sum of each row (a target). kPred: the sum of each column
// (an answer). kAll: the sum of the matrix.
enum class Normalize : std::uint8_t { kNone, kTrue, kPred, kAll };
template <>
struct WordsOf<Normalize> {
  static constexpr std::array kAll = {"none", "true", "pred", "all"};
};

struct BinaryConfusionMatrixOptions {
  double threshold = 0.5;
  std::optional<std::int64_t> ignore_index = std::nullopt;
  Word<Normalize> normalize = Normalize::kNone;
};
struct MulticlassConfusionMatrixOptions {
  std::int64_t num_classes = 0;  // required
  std::optional<std::int64_t> ignore_index = std::nullopt;
  Word<Normalize> normalize = Normalize::kNone;
};
struct MultilabelConfusionMatrixOptions {
  std::int64_t num_labels = 0;  // required
  double threshold = 0.5;
  std::optional<std::int64_t> ignore_index = std::nullopt;
  Word<Normalize> normalize = Normalize::kNone;
};

// The value is a matrix: row t, column p counts the samples of target t with answer p. It is int64
// [classes, classes], for labels [labels, 2, 2], and float32 when it is normalized.
class ConfusionMatrix : public Metric {
 public:
  std::string name() const override;
  std::unique_ptr<Metric> clone() const override;
  void reset() override;
  void update(const at::Tensor& outputs, const at::Tensor& target) override;
  at::Tensor compute() override;
  Value state_dict() const override;
  void load_state_dict(const Value& state) override;

 protected:
  explicit ConfusionMatrix(const BinaryConfusionMatrixOptions& options);
  explicit ConfusionMatrix(const MulticlassConfusionMatrixOptions& options);
  explicit ConfusionMatrix(const MultilabelConfusionMatrixOptions& options);

 private:
  ConfusionMatrix(const detail::AnswerRules& rules, const Word<Normalize>& normalize);
  std::vector<std::int64_t> shape() const;

  detail::AnswerRules rules_;
  Normalize normalize_;
  at::Tensor confmat_;  // undefined before the first update
};

class BinaryConfusionMatrix final : public ConfusionMatrix {
 public:
  explicit BinaryConfusionMatrix(const BinaryConfusionMatrixOptions& options = {})
      : ConfusionMatrix(options) {}
  explicit BinaryConfusionMatrix(EmptyBraces)
      : BinaryConfusionMatrix(BinaryConfusionMatrixOptions()) {}
};
class MulticlassConfusionMatrix final : public ConfusionMatrix {
 public:
  explicit MulticlassConfusionMatrix(const MulticlassConfusionMatrixOptions& options)
      : ConfusionMatrix(options) {}
};
class MultilabelConfusionMatrix final : public ConfusionMatrix {
 public:
  explicit MultilabelConfusionMatrix(const MultilabelConfusionMatrixOptions& options)
      : ConfusionMatrix(options) {}
};

// --- AUROC ---------------------------------------------------------------------------------------

struct BinaryAUROCOptions {
  // The number of thresholds, evenly from 0 to 1, at which answers are counted. nullopt: exact, but
  // the metric keeps every score and target, and in a job of several processes each rank gets all.
  std::optional<std::int64_t> thresholds = std::nullopt;
  std::optional<std::int64_t> ignore_index = std::nullopt;
};
struct MulticlassAUROCOptions {
  std::int64_t num_classes = 0;             // required
  Word<Average> average = Average::kMacro;  // not kMicro
  std::optional<std::int64_t> thresholds = std::nullopt;
  std::optional<std::int64_t> ignore_index = std::nullopt;
};

struct MultilabelAUROCOptions {
  std::int64_t num_labels = 0;  // required
  Word<Average> average = Average::kMacro;
  std::optional<std::int64_t> thresholds = std::nullopt;
  std::optional<std::int64_t> ignore_index = std::nullopt;
};

// The area under the receiver operating characteristic; for several classes, of each against the
// rest; for labels, of each. NaN until a sample counts.
class AUROC : public Metric {
 public:
  std::string name() const override;
  std::unique_ptr<Metric> clone() const override;
  void reset() override;
  void update(const at::Tensor& outputs, const at::Tensor& target) override;
  at::Tensor compute() override;
  Value state_dict() const override;
  void load_state_dict(const Value& state) override;
  Value merge_states(const std::vector<Value>& states) const override;

 protected:
  explicit AUROC(const BinaryAUROCOptions& options);
  explicit AUROC(const MulticlassAUROCOptions& options);
  explicit AUROC(const MultilabelAUROCOptions& options);

 private:
  AUROC(const detail::AnswerRules& rules, const Word<Average>& average,
        std::optional<std::int64_t> thresholds);
  void check_shapes(const at::Tensor& outputs, const at::Tensor& target) const;
  void keep(const at::Tensor& scores, const at::Tensor& target, const at::Tensor& counted);
  void count(const at::Tensor& scores, const at::Tensor& is_positive, const at::Tensor& counted);
  bool has_counted(const at::Tensor& target) const;
  at::Tensor area_of_labels(const at::Tensor& scores, const at::Tensor& target) const;
  std::vector<std::int64_t> confmat_shape() const;

  detail::AnswerRules rules_;
  Average average_;
  std::optional<std::int64_t> thresholds_;
  at::Tensor confmat_;  // int64 [thresholds, (classes,) 2, 2]; undefined before the first update
  std::vector<at::Tensor> scores_;  // without thresholds: of each update
  std::vector<at::Tensor> targets_;
};

class BinaryAUROC final : public AUROC {
 public:
  explicit BinaryAUROC(const BinaryAUROCOptions& options = {}) : AUROC(options) {}
  explicit BinaryAUROC(EmptyBraces) : BinaryAUROC(BinaryAUROCOptions()) {}
};
class MulticlassAUROC final : public AUROC {
 public:
  explicit MulticlassAUROC(const MulticlassAUROCOptions& options) : AUROC(options) {}
};
class MultilabelAUROC final : public AUROC {
 public:
  explicit MultilabelAUROC(const MultilabelAUROCOptions& options) : AUROC(options) {}
};

}  // namespace cairn
