// GradientClipping: limits the size of gradients (composer/algorithms/gradient_clipping).
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "cairn/export.h"
#include "cairn/train/algorithm.h"
#include "cairn/train/empty_braces.h"
#include "cairn/word.h"

namespace CAIRN_PUBLIC cairn {

enum class ClippingType : std::uint8_t {
  kNorm,      // the L2 norm of all gradients together is at most the threshold
  kValue,     // each element lies in [-threshold, threshold]
  kAdaptive,  // the norm of the gradient of each unit (row, filter, or whole bias) is at most the
              // threshold times the norm of its weights (arXiv:2102.06171)
};
template <>
struct WordsOf<ClippingType> {
  static constexpr std::array kAll = {"norm", "value", "adaptive"};
};

struct GradientClippingOptions {
  Word<ClippingType> clipping_type = {};  // required: "norm", "value" or "adaptive"
  double clipping_threshold = 0;          // required: more than 0
};

// Clips once per batch, after all microbatches, when gradients are unscaled. "norm" is the usual
// choice, since it keeps the direction; 1.0 is a usual threshold. Costs a pass over the gradients.
// On a GPU "adaptive" also takes memory: at most a few copies of the largest weight, or of 2^26
// numbers.
class GradientClipping final : public Algorithm {
 public:
  // Throws UsageError for another type, or a threshold of 0 or less.
  explicit GradientClipping(GradientClippingOptions options);
  explicit GradientClipping(EmptyBraces)  // GradientClipping({.clipping_type = "norm", ...})
      : GradientClipping(GradientClippingOptions()) {}
  template <detail::NeverMatches T>
  GradientClipping(std::initializer_list<T>) = delete;

  std::string name() const override { return "GradientClipping"; }
  bool needs_losses(const State& /*state*/) const override { return false; }
  std::string repr() const override;
  bool match(Event event, const State& state) const override;
  bool may_change_batch() const override { return false; }
  void apply(Event event, State& state, Logger& logger) override;

 private:
  GradientClippingOptions options_;
};

}  // namespace cairn
