// LabelSmoothing: moves a part of each target's probability to all classes (arXiv:1512.00567;
// composer/algorithms/label_smoothing).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <variant>

#include "cairn/export.h"
#include "cairn/train/algorithm.h"
#include "cairn/train/empty_braces.h"

namespace CAIRN_PUBLIC cairn {

struct LabelSmoothingOptions {
  double smoothing = 0.1;  // in [0, 1]
  // Where the targets are in a batch: a position, or a name.
  std::variant<std::int64_t, std::string> target_key = std::int64_t{1};
};

// While the loss is computed, replaces the targets by (1 - smoothing) * one-hot + smoothing /
// classes. The loss must take probabilities, as soft_cross_entropy() does. A negative class index
// (an ignored sample) becomes smoothing / classes in every class, as in Composer. The model must
// give one output tensor.
class LabelSmoothing final : public Algorithm {
 public:
  // Throws UsageError for a smoothing out of range.
  explicit LabelSmoothing(LabelSmoothingOptions options = {});
  explicit LabelSmoothing(EmptyBraces)  // LabelSmoothing({.smoothing = 0.1})
      : LabelSmoothing(LabelSmoothingOptions()) {}
  template <detail::NeverMatches T>
  LabelSmoothing(std::initializer_list<T>) = delete;

  std::string name() const override { return "LabelSmoothing"; }
  bool needs_losses(const State& /*state*/) const override { return false; }
  std::string repr() const override;
  bool match(Event event, const State& state) const override;
  bool may_change_batch() const override { return false; }
  void apply(Event event, State& state, Logger& logger) override;

 private:
  LabelSmoothingOptions options_;
  at::Tensor original_;  // the batch's targets, from before_loss to after_loss
};

// Returns the targets that LabelSmoothing makes from class indices or probabilities.
at::Tensor smooth_labels(const at::Tensor& outputs, const at::Tensor& target, double smoothing);

}  // namespace cairn
