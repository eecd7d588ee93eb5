// The loops over elements that compute steps of optimizers, for the instruction set of this
// processor.
#pragma once

#include <cstdint>

#include "train/fused/arithmetic.h"

namespace cairn::fused {

// The memory of one parameter, in the same order everywhere.
struct Slice {
  void* parameter;
  const void* gradient;  // null if the step is alone
  void* states[3];       // null where the step uses none
};

// Steps the elements [begin, end).
template <class Step>
using Kernel = void (*)(const Step& step, const Slice& slice, std::int64_t begin, std::int64_t end);

// Bfloat16 of arithmetic.h: kBfloat16InVector has kInVector.
enum class Element { kFloat, kDouble, kBfloat16, kBfloat16InVector };

// The kernel for the flags of a step, with arithmetic.h's kFma.
template <class Step>
Kernel<Step> find_kernel(Element element, unsigned flags, bool fma);

}  // namespace cairn::fused
