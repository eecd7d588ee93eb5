#include "cairn/algorithms/progressive_resizing.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>

#include "cairn/error.h"
#include "cairn/train/logger.h"
#include "cairn/train/state.h"

#include "algorithms/elapsed.h"
#include "algorithms/targets.h"
#include "core/text/float_text.h"

namespace cairn {
namespace {

std::int64_t scaled(std::int64_t size, double factor) {
  return static_cast<std::int64_t>(factor * static_cast<double>(size));
}

// A pixel of an image of size `of` in one of size `to`. Composer multiplies in float32.
std::int64_t moved(std::int64_t at, std::int64_t of, std::int64_t to) {
  const double ratio = static_cast<double>(to) / static_cast<double>(of);
  return static_cast<std::int64_t>(static_cast<float>(ratio) * static_cast<float>(at));
}

// The part whose size is scaled by `factor`, and whose first pixel is (top, left).
at::Tensor cropped(const at::Tensor& images, double factor, std::int64_t top, std::int64_t left) {
  return images.slice(2, top, top + scaled(images.size(2), factor))
      .slice(3, left, left + scaled(images.size(3), factor));
}

at::Tensor nearest(const at::Tensor& images, double factor) {
  return torch::nn::functional::interpolate(images,
                                            torch::nn::functional::InterpolateFuncOptions()
                                                .scale_factor(std::vector<double>{factor, factor})
                                                .mode(torch::kNearest)
                                                .recompute_scale_factor(false));
}

void check_mode(const Word<ResizeMode>& mode) {
  if (mode.value()) return;
  throw UsageError("ProgressiveResizing: mode must be \"crop\" or \"resize\", found \"" + mode +
                   "\"");
}

void check_dimensions(const char* what, const at::Tensor& images) {
  if (images.dim() == 4) return;
  throw UsageError(
      fmt::format("ProgressiveResizing: {} must have the shape (N, C, H, W), found {} dimensions",
                  what, images.dim()));
}

ResizedBatch resized(const at::Tensor& input, const at::Tensor& target,
                     const ResizeBatchOptions& options, Draws& draws) {
  const double factor = options.scale_factor;
  if (options.mode == ResizeMode::kResize) {
    return {nearest(input, factor), options.resize_targets ? nearest(target, factor) : target};
  }
  const std::int64_t height = input.size(2);
  const std::int64_t width = input.size(3);
  const std::int64_t top = draws.integer(0, height - scaled(height, factor));
  const std::int64_t left = draws.integer(0, width - scaled(width, factor));
  const at::Tensor part = cropped(input, factor, top, left);
  if (!options.resize_targets) return {part, target};
  return {part, cropped(target, factor, moved(top, height, target.size(2)),
                        moved(left, width, target.size(3)))};
}

}  // namespace

ResizedBatch resize_batch(const at::Tensor& input, const at::Tensor& target,
                          const ResizeBatchOptions& options, const std::shared_ptr<Draws>& draws) {
  check_mode(options.mode);
  check_dimensions("images", input);
  const bool are_indices =
      options.resize_targets && !target.is_floating_point() && target.scalar_type() != at::kBool;
  // Indices get the dimension of the images' channels.
  const at::Tensor images = are_indices ? target.to(at::kFloat).unsqueeze(1) : target;
  if (options.resize_targets) check_dimensions("targets to resize", images);
  if (options.scale_factor >= 1) return {input, target};
  ResizedBatch result = resized(input, images, options, *draws);
  if (are_indices) result.target = result.target.squeeze(1).to(target.scalar_type());
  return result;
}

ProgressiveResizing::ProgressiveResizing(ProgressiveResizingOptions options,
                                         std::shared_ptr<Draws> draws)
    : options_(std::move(options)), draws_(std::move(draws)) {
  check_mode(options_.mode);
  check_fraction("ProgressiveResizing: initial_scale", options_.initial_scale);
  check_fraction("ProgressiveResizing: finetune_fraction", options_.finetune_fraction);
  check_fraction("ProgressiveResizing: delay_fraction", options_.delay_fraction);
  check_fraction("ProgressiveResizing: delay_fraction + finetune_fraction",
                 options_.delay_fraction + options_.finetune_fraction);
  if (options_.size_increment < 1) {
    throw UsageError(fmt::format("ProgressiveResizing: size_increment must be 1 or more, found {}",
                                 options_.size_increment));
  }
  check_batch_key("ProgressiveResizing: input_key", options_.input_key);
  check_batch_key("ProgressiveResizing: target_key", options_.target_key);
}

std::string ProgressiveResizing::repr() const {
  return fmt::format(
      "ProgressiveResizing(mode='{}',initial_scale={},finetune_fraction={},delay_fraction={},"
      "size_increment={},resize_targets={},input_key={},target_key={})",
      options_.mode, python_float_repr(options_.initial_scale),
      python_float_repr(options_.finetune_fraction), python_float_repr(options_.delay_fraction),
      options_.size_increment, python_bool(options_.resize_targets),
      python_repr(options_.input_key), python_repr(options_.target_key));
}

bool ProgressiveResizing::match(Event event, const State& /*state*/) const {
  return event == Event::kAfterDataloader;
}

void ProgressiveResizing::apply(Event /*event*/, State& state, Logger& logger) {
  at::Tensor& input = batch_item(state.batch, options_.input_key);
  at::Tensor& target = batch_item(state.batch, options_.target_key);
  check_dimensions("images", input);
  const double elapsed = elapsed_fraction(state, "ProgressiveResizing");
  const double growth = 1 - options_.finetune_fraction - options_.delay_fraction;
  double done = 0;
  if (elapsed >= options_.delay_fraction) {
    done = growth > 0 ? std::min((elapsed - options_.delay_fraction) / growth, 1.0) : 1.0;
  }
  const double factor = options_.initial_scale + (1 - options_.initial_scale) * done;
  // Like Python's round(), nearbyint() rounds a half to the even number.
  const auto width = static_cast<double>(input.size(3));
  const auto increment = static_cast<double>(options_.size_increment);
  const double scaled_width = std::nearbyint(width * factor / increment) * increment;
  const ResizedBatch resized = resize_batch(input, target,
                                            {.scale_factor = scaled_width / width,
                                             .mode = options_.mode,
                                             .resize_targets = options_.resize_targets},
                                            draws_);
  input = resized.input;
  target = resized.target;
  logger.log_metrics(Dict{{"progressive_resizing/height", input.size(2)},
                          {"progressive_resizing/width", input.size(3)},
                          {"progressive_resizing/scale_factor", factor}});
}

}  // namespace cairn
