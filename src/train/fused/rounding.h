// How the operators of the libtorch at hand round.
#pragma once

#include <c10/core/ScalarType.h>

#include <string>

namespace cairn::fused {

enum class Rounding {
  kTwice,    // a product is rounded, and then the sum (arithmetic.h without kFma)
  kOnce,     // both together (kFma)
  kUnknown,  // neither: arithmetic.h does not have the bits of this libtorch
};

// Computes a few thousand elements by ATen's operators and by arithmetic.h, once for each type.
// Draws no random number. `type`: others than kFloat and kDouble are kUnknown. Thread-safe.
//
// bfloat16 has no kernels: ATen's Tensor::add(x, a) rounds once in whole vectors, and twice in the
// elements after the last whole vector of each thread's part of a tensor.
Rounding rounding_of(c10::ScalarType type);

// A line about `rounding` for the run's log; empty if optimizers step in one pass.
std::string rounding_problem(Rounding rounding);

}  // namespace cairn::fused
