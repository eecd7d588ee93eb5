// Metrics of language models, with the names, definitions and state of Composer and torchmetrics.
// Outputs are scores with the vocabulary in the last dimension, targets are token ids. For a batch
// or outputs with names, pass the tensors in Model::update_metric(). cairn.h leaves this header
// out.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "cairn/export.h"
#include "cairn/metrics/mean.h"
#include "cairn/train/empty_braces.h"

namespace CAIRN_PUBLIC cairn {

struct LanguageMetricOptions {
  // The id that does not count, such as the label of padding.
  std::int64_t ignore_index = -100;
};

// The mean cross-entropy of a token (Composer).
class LanguageCrossEntropy : public MeanMetric {
 public:
  explicit LanguageCrossEntropy(LanguageMetricOptions options = {})
      : LanguageCrossEntropy("LanguageCrossEntropy", options) {}
  explicit LanguageCrossEntropy(EmptyBraces) : LanguageCrossEntropy(LanguageMetricOptions()) {}
  std::unique_ptr<Metric> clone() const override;
  void update(const at::Tensor& outputs, const at::Tensor& target) override;

 protected:
  LanguageCrossEntropy(const char* name, LanguageMetricOptions options);

 private:
  std::int64_t ignore_index_;
};

// exp() of the mean cross-entropy of a token (Composer).
class LanguagePerplexity final : public LanguageCrossEntropy {
 public:
  explicit LanguagePerplexity(LanguageMetricOptions options = {})
      : LanguageCrossEntropy("LanguagePerplexity", options) {}
  explicit LanguagePerplexity(EmptyBraces) : LanguagePerplexity(LanguageMetricOptions()) {}
  std::unique_ptr<Metric> clone() const override;
  at::Tensor compute() override;
};

// The fraction of tokens whose id has the highest score (Composer).
class MaskedAccuracy final : public MeanMetric {
 public:
  explicit MaskedAccuracy(LanguageMetricOptions options = {});
  explicit MaskedAccuracy(EmptyBraces) : MaskedAccuracy(LanguageMetricOptions()) {}
  std::unique_ptr<Metric> clone() const override;
  void update(const at::Tensor& outputs, const at::Tensor& target) override;

 private:
  std::int64_t ignore_index_;
};

// As LanguagePerplexity, by torchmetrics' name and state. Outputs have shape
// [samples, tokens, vocabulary].
struct PerplexityOptions {
  std::optional<std::int64_t> ignore_index = std::nullopt;  // nullopt: every token counts
};
class Perplexity final : public MeanMetric {
 public:
  explicit Perplexity(PerplexityOptions options = {});
  explicit Perplexity(EmptyBraces) : Perplexity(PerplexityOptions()) {}
  std::unique_ptr<Metric> clone() const override;
  void update(const at::Tensor& outputs, const at::Tensor& target) override;
  at::Tensor compute() override;

 private:
  std::optional<std::int64_t> ignore_index_;
};

}  // namespace cairn
