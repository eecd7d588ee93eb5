// MixUp: trains on mixtures of pairs of samples (arXiv:1710.09412; composer/algorithms/mixup).
#pragma once

#include <ATen/core/Tensor.h>

#include <initializer_list>
#include <memory>
#include <optional>
#include <string>

#include "cairn/algorithms/batch_key.h"
#include "cairn/algorithms/draws.h"
#include "cairn/export.h"
#include "cairn/train/algorithm.h"
#include "cairn/train/empty_braces.h"

namespace CAIRN_PUBLIC cairn {

struct MixUpOptions {
  // The share of the other sample is drawn from Beta(alpha, alpha). Near 0 one sample has almost
  // all of the mixture; large values mix both equally. 0: nothing is mixed.
  double alpha = 0.2;
  // Mixes the losses of both targets, not the targets. The same for cross-entropy, and does not
  // need a loss that takes probabilities.
  bool interpolate_loss = false;
  BatchKey input_key = std::int64_t{0};
  BatchKey target_key = std::int64_t{1};
};

// In each microbatch: input = (1 - mixing) * input + mixing * (the input of another sample), and
// the same for targets as probabilities. `mixing` is drawn for each microbatch and is at most 0.5.
// Train metrics see the microbatch before it is mixed. Without interpolate_loss the loss must take
// probabilities, as soft_cross_entropy() does, and the model must give one output tensor.
class MixUp final : public Algorithm {
 public:
  // Throws UsageError for an alpha below 0. `draws`: where the random numbers come from.
  explicit MixUp(MixUpOptions options = {},
                 std::shared_ptr<Draws> draws = std::make_shared<Draws>());
  explicit MixUp(EmptyBraces) : MixUp(MixUpOptions()) {}  // MixUp({.alpha = 0.2})
  template <detail::NeverMatches T>
  MixUp(std::initializer_list<T>) = delete;

  std::string name() const override { return "MixUp"; }
  bool needs_losses(const State& /*state*/) const override { return false; }
  bool may_change_batch() const override { return false; }
  std::string repr() const override;
  bool match(Event event, const State& state) const override;
  void apply(Event event, State& state, Logger& logger) override;

 private:
  void mix_inputs(State& state);
  void mix_targets(State& state) const;
  void mix_losses(State& state) const;

  MixUpOptions options_;
  std::shared_ptr<Draws> draws_;
  // The current microbatch has:
  double mixing_ = 0;
  at::Tensor permuted_target_;
};

// Absent values are drawn.
struct MixUpBatchOptions {
  std::optional<double> mixing = std::nullopt;       // in [0, 1]; the share of the other sample
  double alpha = 0.2;                                // as MixUpOptions::alpha, for a drawn `mixing`
  std::optional<at::Tensor> indices = std::nullopt;  // a permutation of the samples, int64
};
struct MixedBatch {
  at::Tensor input;
  at::Tensor permuted_target;  // the targets of the other samples
  double mixing;
};
// Mixes a batch whose first dimension is the sample; `input` and `target` stay as they are.
MixedBatch mixup_batch(const at::Tensor& input, const at::Tensor& target,
                       const MixUpBatchOptions& options = {},
                       const std::shared_ptr<Draws>& draws = std::make_shared<Draws>());

}  // namespace cairn
