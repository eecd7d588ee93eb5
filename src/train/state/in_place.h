// Tensors of a model that a load may read straight into: LoadCheckpointOptions::in_place.
#pragma once

#include <unordered_set>
#include <vector>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/value.h"

namespace torch::nn {
class Module;
}

namespace cairn {

struct InPlace {
  // The memory of live tensors, filled by nobody yet: what stands there are the elements of before.
  std::vector<StorageRead> reads;
  std::unordered_set<const Storage*> storages;  // over that memory
};

// `model`, the state_dict of a checkpoint, with the storages of tensors replaced by the memory of
// the module's tensor of that name, and added to `in_place`. A tensor qualifies that lies in memory
// of the host and has the dtype, the shape and the order of elements of the checkpoint's, when each
// of the two is the whole of its storage, and has it for itself, or for tensors of the same names
// in both. The others stay as they are.
Value placed_in(const torch::nn::Module& module, const Value& model, InPlace& in_place);

}  // namespace cairn
