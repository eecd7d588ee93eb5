#include "cairn/algorithms/mixup.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>

#include "cairn/error.h"
#include "cairn/train/state.h"

#include "algorithms/targets.h"
#include "core/text/float_text.h"

namespace cairn {
namespace {

// At most 0.5, so that a sample keeps most of itself, and accuracy in training has a meaning.
double draw_mixing(double alpha, Draws& draws) {
  const double share = alpha == 0 ? 0 : draws.beta(alpha);
  return std::min(share, 1 - share);
}

at::Tensor mixture(const at::Tensor& own, const at::Tensor& other, double mixing) {
  return (1 - mixing) * own + mixing * other;
}

void check_mixup_alpha(double alpha) {
  if (alpha >= 0) return;
  throw UsageError(fmt::format("MixUp: alpha must be 0 or more, found {}", alpha));
}

}  // namespace

MixedBatch mixup_batch(const at::Tensor& input, const at::Tensor& target,
                       const MixUpBatchOptions& options, const std::shared_ptr<Draws>& draws) {
  check_mixup_alpha(options.alpha);
  const double mixing = options.mixing ? *options.mixing : draw_mixing(options.alpha, *draws);
  const at::Tensor indices = options.indices ? *options.indices : draws->permutation(input.size(0));
  return {mixture(input, input.index_select(0, indices.to(input.device())), mixing),
          target.index_select(0, indices.to(target.device())), mixing};
}

MixUp::MixUp(MixUpOptions options, std::shared_ptr<Draws> draws)
    : options_(std::move(options)), draws_(std::move(draws)) {
  check_mixup_alpha(options_.alpha);
  check_batch_key("MixUp: input_key", options_.input_key);
  check_batch_key("MixUp: target_key", options_.target_key);
}

std::string MixUp::repr() const {
  return fmt::format("MixUp(alpha={},interpolate_loss={},input_key={},target_key={})",
                     python_float_repr(options_.alpha), python_bool(options_.interpolate_loss),
                     python_repr(options_.input_key), python_repr(options_.target_key));
}

bool MixUp::match(Event event, const State& /*state*/) const {
  return event == Event::kBeforeForward ||
         event == (options_.interpolate_loss ? Event::kBeforeBackward : Event::kBeforeLoss);
}

void MixUp::apply(Event event, State& state, Logger& /*logger*/) {
  if (event == Event::kBeforeForward) return mix_inputs(state);
  if (event == Event::kBeforeLoss) return mix_targets(state);
  mix_losses(state);
}

void MixUp::mix_inputs(State& state) {
  at::Tensor& input = batch_item(state.batch, options_.input_key);
  const MixedBatch mixed = mixup_batch(input, batch_item(state.batch, options_.target_key),
                                       {.alpha = options_.alpha}, draws_);
  mixing_ = mixed.mixing;
  permuted_target_ = mixed.permuted_target;
  input = mixed.input;
}

void MixUp::mix_targets(State& state) const {
  at::Tensor& target = batch_item(state.batch, options_.target_key);
  const at::Tensor& outputs = state.outputs.single();
  target = mixture(one_hot_targets("MixUp", outputs, target),
                   one_hot_targets("MixUp", outputs, permuted_target_), mixing_);
}

void MixUp::mix_losses(State& state) const {
  const at::Tensor other = loss_against("MixUp", state, options_.target_key, permuted_target_);
  state.loss = mixture(state.loss, other, mixing_);
}

}  // namespace cairn
