// Tensors of a model that a load may read straight into: LoadCheckpointOptions::in_place.
#pragma once

#include <c10/core/Storage.h>

#include <vector>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/value.h"

#include "core/pointer_map.h"

namespace torch::nn {
class Module;
}

namespace cairn {

struct InPlace {
  // The memory of live tensors, filled by nobody yet: what stands there are the elements of before.
  std::vector<StorageRead> reads;
  std::vector<c10::Storage> memory;  // of each
  PointerMap<bool> storages;         // over it; until the others are staged

  // That the memory is where it was: Error when a weight was given other memory meanwhile.
  void check() const;
};

// Replaces the storages of tensors of `model`, the state_dict of a checkpoint, by the memory of the
// module's tensor of that name, and adds them to `in_place`. A tensor qualifies that lies in memory
// of the host and has the dtype, the shape and the order of elements of the checkpoint's, when each
// of the two is the whole of its storage, and has it for itself, or for tensors of the same names
// in both, and no other storage of the module has any of its memory. The others stay as they are.
// What nobody else has of `model` is changed where it is.
void place_in(const torch::nn::Module& module, Value& model, InPlace& in_place);

}  // namespace cairn
