// Tensors as images.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "loggers/images/png.h"

namespace cairn {

// One image of [C,H,W] or [H,W], or the N images of [N,C,H,W]. With `channels_last` the channels
// come after H and W. uint8 elements are pixels; bools and floating-point elements are scaled from
// [0, 1], and what lies outside is cut. Throws UsageError for other shapes and dtypes, and for
// images without pixels or with more than four channels.
std::vector<PixelImage> pixels_of(const at::Tensor& images, bool channels_last);

// The images in rows of at most `columns`, as torchvision's and PyTorch's make_grid() put them, on
// black. All must have one size.
PixelImage grid_of(const std::vector<PixelImage>& images, std::size_t columns);

}  // namespace cairn
