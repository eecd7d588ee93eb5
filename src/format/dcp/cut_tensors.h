// Makes parts of tensors that read only their own bytes.
#pragma once

#include <span>
#include <vector>

#include "cairn/tensor.h"

#include "format/dcp/metadata/metadata.h"

namespace cairn::dcp {

// A box of a tensor. The tensor must outlive the call. A box with a size of 0 is empty.
struct TensorCut {
  const TensorView* tensor = nullptr;
  Box box = {};
};

// Returns for each cut a contiguous tensor of the box's sizes. Its `part` says where it lies in the
// whole tensor. Its bytes are read from the tensor's own storage when they are asked for. If
// tensors are stored in several pieces, opens the pieces during the call, for all cuts together.
// Throws UsageError for a box outside of its tensor; CorruptError, StorageError.
std::vector<TensorView> cut_tensors(std::span<const TensorCut> cuts);

}  // namespace cairn::dcp
