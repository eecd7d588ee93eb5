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

// Memory of live tensors that a checkpoint is read into: until reads() are done the elements of
// before stand there.
class InPlace {
 public:
  // A storage of the checkpoint, and the memory of the live tensor that it goes into.
  struct Place {
    std::shared_ptr<const Storage> saved;
    c10::Storage memory;
    const void* data;  // where that was
  };
  std::vector<Place> places;

  // Error when a weight was given other memory meanwhile.
  void check() const;
  // What is then to be read.
  StagedReads reads() const;
};

// Replaces the storages of tensors of `model`, the state_dict of a checkpoint, by the memory of the
// module's tensor of that name, and adds them to `in_place`. A tensor qualifies that lies in memory
// of the host or, `with_devices`, of a device with streams, and has the dtype, the shape and the
// order of elements of the checkpoint's, when each of the two is the whole of its storage, and has
// it for itself, or for tensors of the same names in both, and no other storage of the module has
// any of its memory. The others stay as they are. What nobody else has of `model` is changed where
// it is.
void place_in(const torch::nn::Module& module, Value& model, bool with_devices, InPlace& in_place);

}  // namespace cairn
