// Random boxes in images.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cairn/algorithms/draws.h"

namespace cairn {

// Rows or columns [begin, end) of an image.
struct Span {
  std::int64_t begin;
  std::int64_t end;
};

// A span of `length`, less what lies outside of [0, size). Its middle is drawn in the image, or,
// if `uniform`, up to half a length outside, so that each pixel is in the span with the same
// likelihood. An odd length is rounded as in Composer: down in the span, and away from the image
// at the lower end of the draw.
inline Span draw_span(std::int64_t size, std::int64_t length, bool uniform, Draws& draws) {
  const std::int64_t half = length / 2;
  const std::int64_t middle =
      uniform ? draws.integer(-(length - half), size + half) : draws.integer(0, size);
  return {std::clamp<std::int64_t>(middle - half, 0, size),
          std::clamp<std::int64_t>(middle + half, 0, size)};
}

}  // namespace cairn
