#include "cairn/callbacks/image_visualizer.h"

#include <torch/torch.h>

#include <algorithm>

#include "cairn/error.h"
#include "cairn/train/logger.h"
#include "cairn/train/state.h"

#include "callbacks/counted_interval.h"
#include "train/data/batch_item.h"

namespace cairn {

ImageVisualizer::ImageVisualizer(ImageVisualizerOptions options) : options_(std::move(options)) {
  check_counted_interval("ImageVisualizer", options_.interval.time());
  if (options_.num_images < 1) {
    throw UsageError("ImageVisualizer: num_images is at least 1, not " +
                     std::to_string(options_.num_images));
  }
  check_batch_key("ImageVisualizer: input_key", options_.input_key);
}

void ImageVisualizer::before_forward(State& state, Logger& logger) {
  const Time& interval = options_.interval.time();
  const std::int64_t now = state.timestamp.get(interval.unit()).value();
  if (now % interval.value() != 0 || now == last_logged_) return;
  last_logged_ = now;
  log_images(state, logger, "Images/Train");
}

void ImageVisualizer::eval_before_forward(State& state, Logger& logger) {
  if (state.eval_timestamp.batch == 0) log_images(state, logger, "Images/Eval");
}

void ImageVisualizer::log_images(State& state, Logger& logger, const std::string& name) const {
  const at::Tensor& inputs = batch_item(state.batch, options_.input_key);
  const bool are_images =
      (inputs.dim() == 3 || inputs.dim() == 4) && inputs.numel() > inputs.size(0);
  if (!are_images) return;
  at::Tensor images = inputs.narrow(0, 0, std::min(options_.num_images, inputs.size(0)));
  // Three dimensions are images without channels.
  if (images.dim() == 3) images = images.unsqueeze(options_.channels_last ? 3 : 1);
  logger.log_images({.images = images, .name = name, .channels_last = options_.channels_last});
}

}  // namespace cairn
