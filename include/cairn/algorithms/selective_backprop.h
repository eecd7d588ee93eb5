// SelectiveBackprop: trains on the samples of a batch that have the largest losses
// (arXiv:1910.00762; composer/algorithms/selective_backprop).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "cairn/algorithms/batch_key.h"
#include "cairn/algorithms/draws.h"
#include "cairn/export.h"
#include "cairn/train/algorithm.h"
#include "cairn/train/empty_braces.h"

namespace CAIRN_PUBLIC cairn {

// (outputs, target) -> the loss of each sample, of shape (N).
using SampleLosses = std::function<at::Tensor(const at::Tensor&, const at::Tensor&)>;

// The cross-entropy of each sample: the mean over its pixels, if there are any. `target` is as in
// soft_cross_entropy().
at::Tensor sample_cross_entropy(const at::Tensor& outputs, const at::Tensor& target);

struct SelectiveBackpropOptions {
  double start = 0.5;          // fraction of the run
  double end = 0.9;            // fraction of the run
  double keep = 0.5;           // share of the samples that are trained
  double scale_factor = 1.0;   // size of the inputs while the losses are computed
  std::int64_t interrupt = 2;  // every n-th batch of an epoch is trained whole; 0: none
  BatchKey input_key = std::int64_t{0};
  BatchKey target_key = std::int64_t{1};
  // Composer calls the model's loss with reduction="none".
  SampleLosses loss_fn = sample_cross_entropy;
};

// When a batch comes from the loader, computes the loss of each sample by one more forward pass,
// without gradients, and keeps samples by select_using_loss(). The model must give one output
// tensor. It is in training mode, so that BatchNorm's statistics see the batch twice, as in
// Composer. Runs before other algorithms. Samples are counted before the selection. Not for a
// sharded model: the Trainer throws UnsupportedError.
class SelectiveBackprop final : public Algorithm {
 public:
  // Throws UsageError for fractions out of range. `draws`: where the random numbers come from.
  explicit SelectiveBackprop(SelectiveBackpropOptions options = {},
                             std::shared_ptr<Draws> draws = std::make_shared<Draws>());
  explicit SelectiveBackprop(EmptyBraces)  // SelectiveBackprop({.keep = 0.5})
      : SelectiveBackprop(SelectiveBackpropOptions()) {}
  template <detail::NeverMatches T>
  SelectiveBackprop(std::initializer_list<T>) = delete;

  std::string name() const override { return "SelectiveBackprop"; }
  bool needs_losses(const State& /*state*/) const override { return false; }
  std::string repr() const override;
  std::vector<AlgorithmPass> passes() const override;
  bool match(Event event, const State& state) const override;
  void apply(Event event, State& state, Logger& logger) override;

 private:
  SelectiveBackpropOptions options_;
  std::shared_ptr<Draws> draws_;
};

struct SelectiveBackpropTimes {  // as in SelectiveBackpropOptions
  double start = 0.5;
  double end = 0.9;
  std::int64_t interrupt = 2;
};
// Whether samples are selected. `current_duration`: the fraction of the run that is done.
// `batch_idx`: the batch in the epoch, from 0.
bool should_selective_backprop(double current_duration, std::int64_t batch_idx,
                               SelectiveBackpropTimes times = {});

struct SelectUsingLossOptions {  // as in SelectiveBackpropOptions
  double keep = 0.5;
  double scale_factor = 1.0;
  SampleLosses loss_fn = sample_cross_entropy;
};
struct SelectedBatch {
  at::Tensor input;
  at::Tensor target;
};
// Draws keep * N of the N samples. A sample's weight in the draw grows with the rank of its loss:
// to the power of 1 / keep - 1. With a scale_factor below 1 `model` gets inputs of 3, 4 or 5
// dimensions scaled by linear interpolation. Throws UsageError for options out of range.
SelectedBatch select_using_loss(const at::Tensor& input, const at::Tensor& target,
                                const std::function<at::Tensor(const at::Tensor&)>& model,
                                const SelectUsingLossOptions& options = {},
                                const std::shared_ptr<Draws>& draws = std::make_shared<Draws>());

}  // namespace cairn
