// Images as 8-bit pixels, and as PNG files (RFC 2083).
#pragma once

#include <string>

namespace cairn {

// Rows from the top, pixels from the left, and for each pixel its channels: grey, grey and alpha,
// RGB, or RGB and alpha.
struct PixelImage {
  std::size_t width = 0;
  std::size_t height = 0;
  std::size_t channels = 0;  // 1 to 4
  std::string pixels = {};   // width * height * channels bytes
};

std::string png_of(const PixelImage& image);

}  // namespace cairn
