// Tensors put together from runs of elements of others.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cairn/tensor.h"

namespace cairn::deepspeed {

// Consecutive elements of a flat, contiguous tensor.
struct Run {
  TensorView flat;
  std::uint64_t begin = 0;
  std::uint64_t count = 0;
};

// A tensor of these elements, of one dtype, in a row. A view when they are one run; else lazy, put
// together in memory when small and in a scratch file otherwise. The runs must have just as many
// elements as `shape`.
TensorView gather(std::vector<Run> runs, Dims shape, const std::string& scratch_folder);

// A flat tensor for slices: one-dimensional and contiguous, within its storage. CorruptError.
void check_flat(const TensorView& tensor);

// Product of the shape; CorruptError when it is negative or overflows.
std::uint64_t checked_numel(const Dims& shape);

}  // namespace cairn::deepspeed
