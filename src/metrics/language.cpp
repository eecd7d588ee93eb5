#include "cairn/metrics/language.h"

#include <torch/torch.h>

#include "metrics/answers.h"

namespace cairn {
namespace {

// Throws UsageError unless `outputs` have one dimension more, the last one.
void check_shapes(const Metric& metric, const at::Tensor& outputs, const at::Tensor& target) {
  const bool fit =
      outputs.dim() == target.dim() + 1 &&
      outputs.sizes().slice(0, static_cast<std::size_t>(target.dim())) == target.sizes();
  if (fit) return;
  refuse_shapes(metric.name(), outputs, target,
                "scores with the vocabulary in the last dimension, and token ids");
}

}  // namespace

LanguageCrossEntropy::LanguageCrossEntropy(const char* name, LanguageMetricOptions options)
    : MeanMetric({.name = name, .sum = "sum_loss", .count = "total_items"}),
      ignore_index_(options.ignore_index) {}

std::unique_ptr<Metric> LanguageCrossEntropy::clone() const {
  return std::make_unique<LanguageCrossEntropy>(*this);
}

void LanguageCrossEntropy::update(const at::Tensor& outputs, const at::Tensor& target) {
  const torch::NoGradGuard no_grad;
  check_shapes(*this, outputs, target);
  add(at::cross_entropy_loss(outputs.reshape({target.numel(), outputs.size(-1)}), target.flatten(),
                             {}, at::Reduction::Sum, ignore_index_),
      target.ne(ignore_index_).sum());
}

std::unique_ptr<Metric> LanguagePerplexity::clone() const {
  return std::make_unique<LanguagePerplexity>(*this);
}

at::Tensor LanguagePerplexity::compute() { return LanguageCrossEntropy::compute().exp(); }

MaskedAccuracy::MaskedAccuracy(LanguageMetricOptions options)
    : MeanMetric(
          {.name = "MaskedAccuracy", .sum = "correct", .count = "total", .sum_dtype = at::kLong}),
      ignore_index_(options.ignore_index) {}

std::unique_ptr<Metric> MaskedAccuracy::clone() const {
  return std::make_unique<MaskedAccuracy>(*this);
}

void MaskedAccuracy::update(const at::Tensor& outputs, const at::Tensor& target) {
  const torch::NoGradGuard no_grad;
  check_shapes(*this, outputs, target);
  const at::Tensor counted = target.ne(ignore_index_);
  add((outputs.argmax(-1).eq(target) & counted).sum(), counted.sum());
}

Perplexity::Perplexity(PerplexityOptions options)
    : MeanMetric({.name = "Perplexity",
                  .sum = "total_log_probs",
                  .count = "count",
                  .count_dtype = at::kFloat}),
      ignore_index_(options.ignore_index) {}

std::unique_ptr<Metric> Perplexity::clone() const { return std::make_unique<Perplexity>(*this); }

void Perplexity::update(const at::Tensor& outputs, const at::Tensor& target) {
  const torch::NoGradGuard no_grad;
  check_shapes(*this, outputs, target);
  const at::Tensor counted = ignore_index_
                                 ? target.ne(*ignore_index_)
                                 : torch::ones_like(target, target.options().dtype(at::kBool));
  const at::Tensor ids = target.masked_fill(~counted, 0).unsqueeze(-1);
  // torchmetrics takes the logarithm of the probability, which is -inf where log_softmax() is not.
  const at::Tensor log_probs = outputs.softmax(-1).gather(-1, ids).squeeze(-1).log();
  add(-log_probs.masked_fill(~counted, 0).sum(), counted.sum());
}

at::Tensor Perplexity::compute() { return MeanMetric::compute().exp(); }

}  // namespace cairn
