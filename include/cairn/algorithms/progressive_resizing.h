// ProgressiveResizing: trains on small images first (composer/algorithms/progressive_resizing).
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>

#include "cairn/algorithms/batch_key.h"
#include "cairn/algorithms/draws.h"
#include "cairn/export.h"
#include "cairn/train/algorithm.h"
#include "cairn/train/empty_braces.h"
#include "cairn/word.h"

namespace CAIRN_PUBLIC cairn {

enum class ResizeMode : std::uint8_t {
  kCrop,    // a random part of the image
  kResize,  // the whole image, by the nearest pixels
};
template <>
struct WordsOf<ResizeMode> {
  static constexpr std::array kAll = {"crop", "resize"};
};

struct ProgressiveResizingOptions {
  Word<ResizeMode> mode = ResizeMode::kResize;
  double initial_scale = 0.5;       // of height and width, at first
  double finetune_fraction = 0.2;   // of the run, at its end, with whole images
  double delay_fraction = 0.5;      // of the run, at its beginning, with initial_scale
  std::int64_t size_increment = 4;  // widths are multiples of this number of pixels
  bool resize_targets = false;      // for targets with the images' height and width
  BatchKey input_key = std::int64_t{0};
  BatchKey target_key = std::int64_t{1};
};

// Scales the images (N, C, H, W) of each batch when it comes from the loader. Between
// delay_fraction and finetune_fraction the scale grows in proportion to time. Logs
// progressive_resizing/height, /width and /scale_factor.
class ProgressiveResizing final : public Algorithm {
 public:
  // Throws UsageError for another mode, fractions outside of [0, 1], or a sum above 1. `draws`:
  // where the places of crops come from.
  explicit ProgressiveResizing(ProgressiveResizingOptions options = {},
                               std::shared_ptr<Draws> draws = std::make_shared<Draws>());
  explicit ProgressiveResizing(EmptyBraces)  // ProgressiveResizing({.initial_scale = 0.5})
      : ProgressiveResizing(ProgressiveResizingOptions()) {}
  template <detail::NeverMatches T>
  ProgressiveResizing(std::initializer_list<T>) = delete;

  std::string name() const override { return "ProgressiveResizing"; }
  bool needs_losses(const State& /*state*/) const override { return false; }
  // The tokens of a batch may be pixels of its targets.
  bool may_change_batch() const override { return options_.resize_targets; }
  std::string repr() const override;
  bool match(Event event, const State& state) const override;
  void apply(Event event, State& state, Logger& logger) override;

 private:
  ProgressiveResizingOptions options_;
  std::shared_ptr<Draws> draws_;
};

struct ResizeBatchOptions {
  double scale_factor = 1.0;  // of height and width; 1 or more: nothing changes
  Word<ResizeMode> mode = ResizeMode::kResize;
  bool resize_targets = false;
};
struct ResizedBatch {
  at::Tensor input;
  at::Tensor target;
};
// Scales images (N, C, H, W) and, with resize_targets, targets (N, C, H, W) or, for class indices,
// (N, H, W). A crop takes the same part of both. Throws UsageError for other shapes and modes.
ResizedBatch resize_batch(const at::Tensor& input, const at::Tensor& target,
                          const ResizeBatchOptions& options,
                          const std::shared_ptr<Draws>& draws = std::make_shared<Draws>());

}  // namespace cairn
