// How the operators of the libtorch at hand round.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <vector>

#include "train/fused/kernels.h"

namespace cairn::fused {

enum class Rounding {
  kTwice,    // a product is rounded, and then the sum (arithmetic.h without kFma)
  kOnce,     // both together (kFma)
  kUnknown,  // neither: arithmetic.h does not have the bits of this libtorch
};

// Computes a few thousand elements by ATen's operators and by arithmetic.h, once for each type.
// Draws no random number. `type`: others than kFloat, kDouble and kBFloat16 are kUnknown.
// Thread-safe.
Rounding rounding_of(c10::ScalarType type);

// A line about `rounding`, which is that of `type`, for the run's log; empty if optimizers step in
// one pass.
std::string rounding_problem(c10::ScalarType type, Rounding rounding);

// Elements of a tensor, one after another, that one kernel has the bits of.
struct Part {
  Element element;
  std::int64_t size;
};

// The parts of a dense tensor of `count` elements, in order, for the threads that ATen has now.
// `type`: one that rounding_of() knows.
//
// ATen divides a tensor among its threads. In bfloat16, Tensor::add(x, a) of a thread rounds once
// in whole vectors, and twice in the elements after its last whole vector.
std::vector<Part> parts_of(c10::ScalarType type, std::int64_t count);

}  // namespace cairn::fused
