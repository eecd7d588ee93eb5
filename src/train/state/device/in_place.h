// Tensors of a model that a load may read straight into: LoadCheckpointOptions::in_place.
#pragma once

#include <c10/core/Storage.h>

#include <memory>
#include <vector>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/value.h"

#include "train/state/device/staged_reads.h"

namespace torch::nn {
class Module;
}

namespace cairn {

// Memory of live tensors that a checkpoint is read into. The memory holds the old elements until
// the reads() are done.
class InPlace {
 public:
  // A storage of the checkpoint, and the memory of the live tensor that it goes into.
  struct Place {
    std::shared_ptr<const Storage> saved;
    c10::Storage memory;
    const void* data;  // Where `memory` was.
  };
  std::vector<Place> places;

  // Throws Error if a weight has moved to other memory meanwhile.
  void check() const;
  // The reads to do after check().
  StagedReads reads() const;
};

// Replaces storages of `model`, the state_dict of a checkpoint, with the memory of the module's
// tensor of the same name, and adds them to `in_place`. A tensor qualifies if:
//   - it lies in memory of the host or, `with_devices`, of a device with streams;
//   - it has the dtype, shape and order of elements of the checkpoint's tensor;
//   - both are the whole of their storage, which only tensors of the same names share;
//   - its memory overlaps no other storage of the module.
// Other storages stay unchanged. Parts of `model` without another owner are changed in place.
void place_in(const torch::nn::Module& module, Value& model, bool with_devices, InPlace& in_place);

}  // namespace cairn
