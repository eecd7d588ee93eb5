// The distance between the elements of two tensors.
#pragma once

#include <cstdint>
#include <optional>

#include "cairn/tensor.h"

namespace cairn::cli {

struct TensorDistance {
  std::uint64_t elements = 0;
  std::uint64_t differing = 0;
  // Over the absolute differences of all elements; for complex elements, over the magnitudes of the
  // differences. Infinite if only one of two elements is a NaN, or if only one of them is that
  // infinity.
  double max_abs = 0;
  double mean_abs = 0;
};

// Compares tensors of one shape, piece by piece. With one dtype and no tolerance, elements differ
// if any bit differs. Otherwise they are compared as numbers, and differ if they are more than
// `atol` (default 0) apart; NaNs then equal each other. Returns nullopt if the numbers are not
// comparable: one is complex or packed, and the other is not.
std::optional<TensorDistance> compare_tensors(const TensorView& a, const TensorView& b,
                                              std::optional<double> atol);

}  // namespace cairn::cli
