// Assembles tensors from runs of elements of other tensors.
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

// Makes a tensor of these elements, which have one dtype, one run after another. The result is a
// view if there is one run. Otherwise it is lazy: assembled in memory if it is small, else in a
// scratch file. The runs must have exactly as many elements as `shape`.
TensorView gather(std::vector<Run> runs, Dims shape, const std::string& scratch_folder);

// Checks that a tensor can be sliced: one-dimensional, contiguous, within its storage. Throws
// CorruptError otherwise.
void check_flat(const TensorView& tensor);

// Returns the product of the shape. Throws CorruptError if a size is negative, or if the product
// overflows.
std::uint64_t checked_numel(const Dims& shape);

}  // namespace cairn::deepspeed
