// CutOut: sets squares of the images to zero (arXiv:1708.04552; composer/algorithms/cutout).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>

#include "cairn/algorithms/batch_key.h"
#include "cairn/algorithms/draws.h"
#include "cairn/export.h"
#include "cairn/train/algorithm.h"
#include "cairn/train/empty_braces.h"

namespace CAIRN_PUBLIC cairn {

struct CutOutOptions {
  std::int64_t num_holes = 1;
  double length = 0.5;  // side of a square, as a share of min(H, W); in (0, 1)
  // Every pixel is in a square with the same likelihood. If false, the middle of the square is in
  // the image, as in the paper.
  bool uniform_sampling = false;
  BatchKey input_key = std::int64_t{0};
};

// Cuts the same squares out of all images of a batch, when it comes from the loader. The parts of a
// square outside of the image are cut off.
class CutOut final : public Algorithm {
 public:
  // Throws UsageError for a length outside of (0, 1), or fewer than 0 holes. `draws`: where the
  // random numbers come from.
  explicit CutOut(CutOutOptions options = {},
                  std::shared_ptr<Draws> draws = std::make_shared<Draws>());
  explicit CutOut(EmptyBraces) : CutOut(CutOutOptions()) {}  // CutOut({.num_holes = 1})
  template <detail::NeverMatches T>
  CutOut(std::initializer_list<T>) = delete;

  std::string name() const override { return "CutOut"; }
  bool needs_losses(const State& /*state*/) const override { return false; }
  bool may_change_batch() const override { return false; }
  std::string repr() const override;
  bool match(Event event, const State& state) const override;
  void apply(Event event, State& state, Logger& logger) override;

 private:
  CutOutOptions options_;
  std::shared_ptr<Draws> draws_;
};

struct CutOutBatchOptions {  // as in CutOutOptions
  std::int64_t num_holes = 1;
  double length = 0.5;
  bool uniform_sampling = false;
};
// Returns a copy of the images (..., H, W) with zeros in the squares. Throws UsageError as CutOut.
at::Tensor cutout_batch(const at::Tensor& input, const CutOutBatchOptions& options = {},
                        const std::shared_ptr<Draws>& draws = std::make_shared<Draws>());

}  // namespace cairn
