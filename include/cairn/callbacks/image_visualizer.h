// ImageVisualizer: logs the images of some batches (composer/callbacks/image_visualizer.py).
#pragma once

#include <cstdint>
#include <string>

#include "cairn/algorithms/batch_key.h"
#include "cairn/export.h"
#include "cairn/train/callback.h"
#include "cairn/train/duration.h"
#include "cairn/train/empty_braces.h"

namespace CAIRN_PUBLIC cairn {

struct ImageVisualizerOptions {
  // How often images of training are logged: at the first microbatch of every 100th batch, or of
  // every n-th epoch ("1ep"). In batches or epochs. (In Composer an integer counts batches; here it
  // counts epochs, as in all options.)
  Duration interval = "100ba";
  std::int64_t num_images = 8;  // of a microbatch, at most; at least 1
  bool channels_last = false;   // the images have their channels after height and width
  BatchKey input_key = std::int64_t{0};
};

// Logs images as "Images/Train", as algorithms have changed them, and those of the first batch of
// each evaluation as "Images/Eval". Inputs of other than three or four
// dimensions are no images, and are not logged. Composer's mode "segmentation", which adds masks,
// is missing. A batch that is logged waits for the device only if a destination takes images.
class ImageVisualizer final : public Callback {
 public:
  explicit ImageVisualizer(ImageVisualizerOptions options = {});  // UsageError
  explicit ImageVisualizer(EmptyBraces)  // ImageVisualizer({.num_images = 4})
      : ImageVisualizer(ImageVisualizerOptions()) {}

  std::string name() const override { return "ImageVisualizer"; }
  bool needs_losses(const State& /*state*/) const override { return false; }
  bool may_change_batch() const override { return false; }
  void before_forward(State& state, Logger& logger) override;
  void eval_before_forward(State& state, Logger& logger) override;

 private:
  void log_images(State& state, Logger& logger, const std::string& name) const;

  ImageVisualizerOptions options_;
  std::int64_t last_logged_ = -1;  // in units of the interval
};

}  // namespace cairn
