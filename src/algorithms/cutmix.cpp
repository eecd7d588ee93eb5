#include "cairn/algorithms/cutmix.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>

#include "cairn/error.h"
#include "cairn/train/state.h"

#include "algorithms/boxes.h"
#include "algorithms/targets.h"
#include "core/text/float_text.h"

namespace cairn {
namespace {

void check_cutmix_alpha(double alpha) {
  if (alpha >= 0) return;
  throw UsageError(fmt::format("CutMix: alpha must be 0 or more, found {}", alpha));
}

void check_images(const at::Tensor& input) {
  if (input.dim() == 4) return;
  throw UsageError(fmt::format(
      "CutMix: images must have the shape (N, C, H, W), found {} dimensions", input.dim()));
}

// The share of the pixels that the sides of the box are made for. They are cut at the image's edge.
double cutmix_lambda(const at::Tensor& input, const CutMixBatchOptions& options, Draws& draws) {
  if (!options.length) return options.alpha == 0 ? 0 : draws.beta(options.alpha);
  const std::int64_t height = input.size(2);
  const std::int64_t width = input.size(3);
  const auto cut_height = static_cast<std::int64_t>(*options.length * static_cast<double>(height));
  const auto cut_width = static_cast<std::int64_t>(*options.length * static_cast<double>(width));
  return static_cast<double>(cut_width * cut_height) / static_cast<double>(height * width);
}

CutMixBox draw_box(const at::Tensor& input, double lambda, bool uniform_sampling, Draws& draws) {
  const double ratio = std::sqrt(1 - lambda);
  const auto side = [&](std::int64_t of) {
    return static_cast<std::int64_t>(static_cast<double>(of) * ratio);
  };
  const std::int64_t height = input.size(2);
  const std::int64_t width = input.size(3);
  const Span rows = draw_span(height, side(height), uniform_sampling, draws);
  const Span columns = draw_span(width, side(width), uniform_sampling, draws);
  return {rows.begin, columns.begin, rows.end, columns.end};
}

at::Tensor part(const at::Tensor& images, const CutMixBox& box) {
  return images.slice(-2, box.top, box.bottom).slice(-1, box.left, box.right);
}

// `own`, with the box of `other`.
at::Tensor with_box(const at::Tensor& own, const at::Tensor& other, const CutMixBox& box) {
  at::Tensor result = own.clone();
  part(result, box).copy_(part(other, box));
  return result;
}

double share_outside(const at::Tensor& input, const CutMixBox& box) {
  const std::int64_t area = (box.bottom - box.top) * (box.right - box.left);
  return 1 - static_cast<double>(area) / static_cast<double>(input.size(-1) * input.size(-2));
}

}  // namespace

CutMixed cutmix_batch(const at::Tensor& input, const at::Tensor& target,
                      const CutMixBatchOptions& options, const std::shared_ptr<Draws>& draws) {
  check_images(input);
  check_cutmix_alpha(options.alpha);
  if (options.length && options.bbox) {
    throw UsageError("cutmix_batch: give length or bbox, not both");
  }
  const at::Tensor indices = options.indices ? *options.indices : draws->permutation(input.size(0));
  CutMixBox box;
  if (options.bbox) {
    box = *options.bbox;
  } else {
    const double lambda = cutmix_lambda(input, options, *draws);
    box = draw_box(input, lambda, options.uniform_sampling, *draws);
  }
  const at::Tensor other = part(input, box).index_select(0, indices.to(input.device()));
  at::Tensor mixed = input.clone();
  part(mixed, box).copy_(other);
  return {mixed, target.index_select(0, indices.to(target.device())), share_outside(input, box),
          box};
}

CutMix::CutMix(CutMixOptions options, std::shared_ptr<Draws> draws)
    : options_(std::move(options)), draws_(std::move(draws)) {
  check_cutmix_alpha(options_.alpha);
  check_batch_key("CutMix: input_key", options_.input_key);
  check_batch_key("CutMix: target_key", options_.target_key);
}

std::string CutMix::repr() const {
  return fmt::format(
      "CutMix(alpha={},interpolate_loss={},uniform_sampling={},input_key={},target_key={})",
      python_float_repr(options_.alpha), python_bool(options_.interpolate_loss),
      python_bool(options_.uniform_sampling), python_repr(options_.input_key),
      python_repr(options_.target_key));
}

bool CutMix::match(Event event, const State& /*state*/) const {
  return event == Event::kBeforeForward ||
         event == (options_.interpolate_loss ? Event::kBeforeBackward : Event::kBeforeLoss);
}

void CutMix::apply(Event event, State& state, Logger& /*logger*/) {
  if (event == Event::kBeforeForward) return mix_inputs(state);
  if (event == Event::kBeforeLoss) return mix_targets(state);
  mix_losses(state);
}

void CutMix::mix_inputs(State& state) {
  at::Tensor& input = batch_item(state.batch, options_.input_key);
  const CutMixed mixed = cutmix_batch(
      input, batch_item(state.batch, options_.target_key),
      {.alpha = options_.alpha, .uniform_sampling = options_.uniform_sampling}, draws_);
  adjusted_lambda_ = mixed.adjusted_lambda;
  box_ = mixed.bbox;
  permuted_target_ = mixed.permuted_target;
  input = mixed.input;
}

bool CutMix::are_targets_images(const State& state) const {
  Batch batch = state.batch;
  const at::Tensor& input = batch_item(batch, options_.input_key);
  return permuted_target_.dim() > 2 && permuted_target_.size(-2) == input.size(-2) &&
         permuted_target_.size(-1) == input.size(-1);
}

void CutMix::mix_targets(State& state) const {
  at::Tensor& target = batch_item(state.batch, options_.target_key);
  if (are_targets_images(state)) {
    target = with_box(target, permuted_target_, box_);
    return;
  }
  const at::Tensor& outputs = state.outputs.single();
  target = adjusted_lambda_ * one_hot_targets("CutMix", outputs, target) +
           (1 - adjusted_lambda_) * one_hot_targets("CutMix", outputs, permuted_target_);
}

void CutMix::mix_losses(State& state) const {
  if (are_targets_images(state)) {
    throw UsageError(
        "CutMix: interpolate_loss does not go with targets that have the height and width of the "
        "images: set it to false");
  }
  const at::Tensor other = loss_against("CutMix", state, options_.target_key, permuted_target_);
  state.loss = adjusted_lambda_ * state.loss + (1 - adjusted_lambda_) * other;
}

}  // namespace cairn
