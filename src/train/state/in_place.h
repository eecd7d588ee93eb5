// Tensors of a model that a load may read straight into: LoadCheckpointOptions::in_place.
#pragma once

#include <c10/core/Storage.h>

#include <functional>
#include <memory>
#include <vector>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/value.h"

#include "io/page_memory.h"

namespace torch::nn {
class Module;
}

namespace cairn {

// Memory of live tensors that a checkpoint is read into: until fill() the elements of before stand
// there.
class InPlace {
 public:
  // A storage of the checkpoint, and the memory of the live tensor that it goes into.
  struct Place {
    std::shared_ptr<const Storage> saved;
    c10::Storage memory;
    const void* data;  // where that was
  };
  std::vector<Place> on_host;
  std::vector<Place> on_devices;

  bool empty() const { return on_host.empty() && on_devices.empty(); }
  // Takes the memory that fill() needs. std::bad_alloc; Error when a weight was given other memory
  // meanwhile.
  void prepare();
  // Behind prepare(). Fills it by `read`, of the host with one call. What is for devices comes
  // through 32 MiB of the host, or as much as the largest storage has, one such after the other.
  // What `read` and libtorch throw.
  void fill(const std::function<void(const std::vector<StorageRead>& reads)>& read) const;

 private:
  PageMemory room_;

  void check() const;
  void fill_devices(const std::function<void(const std::vector<StorageRead>& reads)>& read) const;
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
