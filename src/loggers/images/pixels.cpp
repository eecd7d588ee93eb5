#include "loggers/images/pixels.h"

#include <torch/torch.h>

#include <algorithm>
#include <sstream>

#include "cairn/error.h"

namespace cairn {
namespace {

constexpr double kWhite = 255;
constexpr std::int64_t kMostChannels = 4;

[[noreturn]] void refuse_images(const at::Tensor& images, const std::string& expected) {
  std::ostringstream shape;
  shape << images.sizes() << " of " << images.dtype().name();
  throw UsageError("log_images: expected " + expected + ", not a tensor of shape " + shape.str());
}

// Bytes on this machine, as [N,H,W,C].
at::Tensor as_pixels(const at::Tensor& images, bool channels_last) {
  at::Tensor made = images.detach().cpu();
  if (made.scalar_type() != at::kByte) {
    const bool is_scaled = made.is_floating_point() || made.scalar_type() == at::kBool;
    if (!is_scaled) refuse_images(images, "elements of uint8, bool or floating point");
    made = made.to(at::kFloat).nan_to_num(0).mul(kWhite).clamp(0, kWhite).to(at::kByte);
  }
  if (made.dim() == 2) made = made.unsqueeze(channels_last ? 2 : 0);
  if (made.dim() == 3) made = made.unsqueeze(0);
  if (made.dim() != 4) refuse_images(images, "[H,W], [C,H,W] or [N,C,H,W]");
  if (!channels_last) made = made.permute({0, 2, 3, 1});
  const std::int64_t channels = made.size(3);
  if (made.numel() == 0 || channels > kMostChannels) {
    refuse_images(images, "images with pixels and one to four channels (channels_last is " +
                              std::string(channels_last ? "true)" : "false)"));
  }
  return made.contiguous();
}

}  // namespace

std::vector<PixelImage> pixels_of(const at::Tensor& images, bool channels_last) {
  const at::Tensor pixels = as_pixels(images, channels_last);
  std::vector<PixelImage> made;
  for (const at::Tensor& image : pixels.unbind()) {
    made.push_back({.width = static_cast<std::size_t>(image.size(1)),
                    .height = static_cast<std::size_t>(image.size(0)),
                    .channels = static_cast<std::size_t>(image.size(2)),
                    .pixels = std::string(static_cast<const char*>(image.data_ptr()),
                                          static_cast<std::size_t>(image.numel()))});
  }
  return made;
}

PixelImage grid_of(const std::vector<PixelImage>& images, std::size_t columns) {
  const PixelImage& first = images.front();
  columns = std::min(columns, images.size());
  const std::size_t rows = (images.size() + columns - 1) / columns;
  PixelImage grid = {
      .width = columns * first.width, .height = rows * first.height, .channels = first.channels};
  grid.pixels.assign(grid.width * grid.height * grid.channels, '\0');
  const std::size_t row = first.width * first.channels;
  for (std::size_t i = 0; i < images.size(); ++i) {
    const std::size_t top = i / columns * first.height;
    for (std::size_t y = 0; y < first.height; ++y) {
      const std::size_t at = (top + y) * columns * row + i % columns * row;
      grid.pixels.replace(at, row, images[i].pixels, y * row, row);
    }
  }
  return grid;
}

}  // namespace cairn
