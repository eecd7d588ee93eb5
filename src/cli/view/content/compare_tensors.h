// How far the elements of two tensors are apart.
#pragma once

#include <cstdint>
#include <optional>

#include "cairn/tensor.h"

namespace cairn::cli {

struct TensorDistance {
  std::uint64_t elements = 0;
  std::uint64_t differing = 0;
  // Of the absolute differences of all elements (of complex ones, of the magnitudes of the
  // differences); infinite when a NaN or an infinity stands against something else.
  double max_abs = 0;
  double mean_abs = 0;
};

// Of tensors of one shape, piece by piece. Of one dtype, and without a tolerance, elements differ
// when a bit does. Otherwise they are compared as numbers, and differ when they are more than
// `atol` (0 when not given) apart; NaNs are then equal to one another. nullopt when there is no
// common measure: one is complex or packed, and the other is not.
std::optional<TensorDistance> compare_tensors(const TensorView& a, const TensorView& b,
                                              std::optional<double> atol);

}  // namespace cairn::cli
