#include "cairn/algorithms/selective_backprop.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>

#include "cairn/error.h"
#include "cairn/train/choices.h"
#include "cairn/train/parameters.h"
#include "cairn/train/state.h"

#include "algorithms/elapsed.h"
#include "algorithms/targets.h"
#include "core/text/float_text.h"
#include "train/data/device_copies.h"
#include "train/loop/precision.h"

namespace cairn {
namespace {

namespace functional = torch::nn::functional;

void check_selection(double keep, double scale_factor) {
  check_fraction("SelectiveBackprop: keep", keep);
  check_fraction("SelectiveBackprop: scale_factor", scale_factor);
  if (keep == 0) throw UsageError("SelectiveBackprop: keep must be more than 0");
}

at::Tensor downscaled(const at::Tensor& input, double factor) {
  if (factor == 1) return input;
  auto options =
      functional::InterpolateFuncOptions()
          .scale_factor(std::vector<double>(
              static_cast<std::size_t>(std::max<std::int64_t>(input.dim() - 2, 0)), factor))
          .align_corners(false)
          .recompute_scale_factor(false);
  switch (input.dim()) {
    case 3:
      return functional::interpolate(input, options.mode(torch::kLinear));
    case 4:
      return functional::interpolate(input, options.mode(torch::kBilinear));
    case 5:
      return functional::interpolate(input, options.mode(torch::kTrilinear));
    default:
      throw UsageError(
          fmt::format("SelectiveBackprop: scale_factor other than 1 needs inputs of 3, 4 or 5 "
                      "dimensions, found {}",
                      input.dim()));
  }
}

// The weight of each sample, by the rank of its loss from the smallest to the largest.
at::Tensor weights_by_rank(std::int64_t samples, double keep) {
  const at::Tensor ranks = (at::arange(samples, at::kDouble) + 0.5) / static_cast<double>(samples);
  const at::Tensor weights = ranks.pow(1.0 / keep - 1.0);
  return weights / weights.sum();
}

at::Device device_of(const State& state) {
  const std::vector<at::Tensor> all = parameters(state.model->module());
  return all.empty() ? at::Device(at::kCPU) : all.front().device();
}

}  // namespace

at::Tensor sample_cross_entropy(const at::Tensor& outputs, const at::Tensor& target) {
  const at::Tensor losses = at::cross_entropy_loss(outputs, target, {}, at::Reduction::None);
  return losses.dim() > 1 ? losses.flatten(1).mean(1) : losses;
}

bool should_selective_backprop(double current_duration, std::int64_t batch_idx,
                               SelectiveBackpropTimes times) {
  const bool is_interval = current_duration >= times.start && current_duration < times.end;
  return is_interval && (times.interrupt == 0 || (batch_idx + 1) % times.interrupt != 0);
}

SelectedBatch select_using_loss(const at::Tensor& input, const at::Tensor& target,
                                const std::function<at::Tensor(const at::Tensor&)>& model,
                                const SelectUsingLossOptions& options,
                                const std::shared_ptr<Draws>& draws) {
  check_selection(options.keep, options.scale_factor);
  const torch::NoGradGuard no_grad;
  const std::int64_t samples = input.size(0);
  const at::Tensor losses = options.loss_fn(model(downscaled(input, options.scale_factor)), target);
  if (losses.dim() != 1 || losses.size(0) != samples) {
    throw UsageError(
        fmt::format("SelectiveBackprop: loss_fn must give a loss for each of {} samples, found a "
                    "tensor of {} dimensions with {} elements",
                    samples, losses.dim(), losses.numel()));
  }
  // The loss of a batch without samples would be NaN.
  const auto count = std::max<std::int64_t>(
      1, static_cast<std::int64_t>(options.keep * static_cast<double>(samples)));
  const at::Tensor ranks = draws->choice(weights_by_rank(samples, options.keep), count);
  const at::Tensor selected = losses.argsort().index_select(0, ranks.to(losses.device()));
  return {input.index_select(0, selected.to(input.device())),
          target.index_select(0, selected.to(target.device()))};
}

SelectiveBackprop::SelectiveBackprop(SelectiveBackpropOptions options, std::shared_ptr<Draws> draws)
    : options_(std::move(options)), draws_(std::move(draws)) {
  check_fraction("SelectiveBackprop: start", options_.start);
  check_fraction("SelectiveBackprop: end", options_.end);
  check_selection(options_.keep, options_.scale_factor);
  if (options_.interrupt < 0) {
    throw UsageError(fmt::format("SelectiveBackprop: interrupt must be 0 or more, found {}",
                                 options_.interrupt));
  }
  check_batch_key("SelectiveBackprop: input_key", options_.input_key);
  check_batch_key("SelectiveBackprop: target_key", options_.target_key);
}

std::string SelectiveBackprop::repr() const {
  return fmt::format(
      "SelectiveBackprop(start={},end={},keep={},scale_factor={},interrupt={},input_key={},"
      "target_key={})",
      python_float_repr(options_.start), python_float_repr(options_.end),
      python_float_repr(options_.keep), python_float_repr(options_.scale_factor),
      options_.interrupt, python_repr(options_.input_key), python_repr(options_.target_key));
}

std::vector<AlgorithmPass> SelectiveBackprop::passes() const {
  const auto order = [](std::vector<Algorithm*>& algorithms, Event /*event*/) {
    std::ranges::stable_partition(algorithms, [](const Algorithm* algorithm) {
      return dynamic_cast<const SelectiveBackprop*>(algorithm) != nullptr;
    });
  };
  return {{.name = "SelectiveBackprop first", .order = order}};
}

bool SelectiveBackprop::match(Event event, const State& state) const {
  if (event != Event::kAfterDataloader || options_.keep >= 1) return false;
  return should_selective_backprop(
      elapsed_fraction(state, "SelectiveBackprop"), state.timestamp.batch_in_epoch,
      {.start = options_.start, .end = options_.end, .interrupt = options_.interrupt});
}

void SelectiveBackprop::apply(Event /*event*/, State& state, Logger& /*logger*/) {
  const at::Device device = device_of(state);
  state.batch = to_device(std::move(state.batch), device);
  Batch scaled = state.batch;
  const auto forward = [&](const at::Tensor& input) {
    batch_item(scaled, options_.input_key) = input;
    const Outputs outputs = state.model->forward(scaled);
    return outputs.single();
  };
  const Word<Precision> precision(state.precision.c_str());
  const AutocastGuard autocast(precision.value().value_or(Precision::kFp32), device);
  const SelectedBatch selected = select_using_loss(
      batch_item(state.batch, options_.input_key), batch_item(state.batch, options_.target_key),
      forward,
      {.keep = options_.keep, .scale_factor = options_.scale_factor, .loss_fn = options_.loss_fn},
      draws_);
  batch_item(state.batch, options_.input_key) = selected.input;
  batch_item(state.batch, options_.target_key) = selected.target;
}

}  // namespace cairn
