// Parts of tensors, of which no more is read than they have.
#pragma once

#include <span>
#include <vector>

#include "cairn/tensor.h"

#include "format/dcp/metadata/metadata.h"

namespace cairn::dcp {

// A box of a tensor, which must outlive the call. Sizes of 0 are nothing.
struct TensorCut {
  const TensorView* tensor = nullptr;
  Box box = {};
};

// Each a contiguous tensor of the box's sizes, whose `part` says where in the whole one it is, and
// whose bytes are read, where they are, when they are asked for. What reading tensors in several
// pieces takes is looked up for all of them together. UsageError for a box outside of its tensor;
// CorruptError, StorageError.
std::vector<TensorView> cut_tensors(std::span<const TensorCut> cuts);

}  // namespace cairn::dcp
