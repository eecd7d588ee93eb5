// The tensors of a batch by the keys that users give for them.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "cairn/algorithms/batch_key.h"
#include "cairn/train/batch.h"

namespace cairn {

// The tensor that `key` names. Throws UsageError if the batch does not have it.
at::Tensor& batch_item(Batch& batch, const BatchKey& key);

// Throws UsageError for a negative position. `where`: "MixUp: input_key".
void check_batch_key(const std::string& where, const BatchKey& key);

}  // namespace cairn
