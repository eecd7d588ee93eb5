// CutMix: replaces a box of each image by that of another image (arXiv:1905.04899;
// composer/algorithms/cutmix).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
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

struct CutMixOptions {
  // The share of an image that stays is drawn from Beta(alpha, alpha). 0: the whole image goes.
  double alpha = 1.0;
  // Mixes the losses of both targets, not the targets, as MixUpOptions::interpolate_loss.
  bool interpolate_loss = false;
  // Every pixel is in the box with the same likelihood. If false, the middle of the box is in the
  // image, as in the paper.
  bool uniform_sampling = false;
  BatchKey input_key = std::int64_t{0};
  BatchKey target_key = std::int64_t{1};
};

// Rows [top, bottom) and columns [left, right) of an image.
struct CutMixBox {
  std::int64_t top = 0;
  std::int64_t left = 0;
  std::int64_t bottom = 0;
  std::int64_t right = 0;
  friend bool operator==(const CutMixBox&, const CutMixBox&) = default;
};

// In each microbatch, whose images have the shape (N, C, H, W), one box of all images holds the
// pixels of another image. Targets, as probabilities, are mixed by the share of the pixels. Targets
// with the images' height and width (segmentation) get the box of the other target. Train metrics
// see the microbatch before it is mixed. Without interpolate_loss the loss must take probabilities,
// as soft_cross_entropy() does, and the model must give one output tensor.
class CutMix final : public Algorithm {
 public:
  // Throws UsageError for an alpha below 0. `draws`: where the random numbers come from.
  explicit CutMix(CutMixOptions options = {},
                  std::shared_ptr<Draws> draws = std::make_shared<Draws>());
  explicit CutMix(EmptyBraces) : CutMix(CutMixOptions()) {}  // CutMix({.alpha = 1.0})
  template <detail::NeverMatches T>
  CutMix(std::initializer_list<T>) = delete;

  std::string name() const override { return "CutMix"; }
  bool needs_losses(const State& /*state*/) const override { return false; }
  bool may_change_batch() const override { return false; }
  std::string repr() const override;
  bool match(Event event, const State& state) const override;
  void apply(Event event, State& state, Logger& logger) override;

 private:
  void mix_inputs(State& state);
  void mix_targets(State& state) const;
  void mix_losses(State& state) const;
  bool are_targets_images(const State& state) const;

  CutMixOptions options_;
  std::shared_ptr<Draws> draws_;
  // The current microbatch has:
  double adjusted_lambda_ = 0;
  CutMixBox box_;
  at::Tensor permuted_target_;
};

// At most one of length and bbox; with neither, the size of the box is drawn.
struct CutMixBatchOptions {
  std::optional<double> length = std::nullopt;  // sides of the box, as a share of H and W
  double alpha = 1.0;                           // as CutMixOptions::alpha
  std::optional<CutMixBox> bbox = std::nullopt;
  std::optional<at::Tensor> indices = std::nullopt;  // a permutation of the samples, int64
  bool uniform_sampling = false;                     // as CutMixOptions::uniform_sampling
};
struct CutMixed {
  at::Tensor input;
  at::Tensor permuted_target;  // the targets of the other images
  double adjusted_lambda;      // the share of the pixels that stay
  CutMixBox bbox;              // within the image
};
// Mixes a batch of images (N, C, H, W); `input` and `target` stay as they are. As in Composer,
// `length` goes into the draw as the share of pixels that stay, so that a box of length l has sides
// of sqrt(1 - l * l). Throws UsageError for another shape, and for both length and bbox.
CutMixed cutmix_batch(const at::Tensor& input, const at::Tensor& target,
                      const CutMixBatchOptions& options = {},
                      const std::shared_ptr<Draws>& draws = std::make_shared<Draws>());

}  // namespace cairn
