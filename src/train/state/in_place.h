// Tensors of a model that a load may read straight into: LoadCheckpointOptions::in_place.
#pragma once

#include <c10/core/Storage.h>

#include <functional>
#include <memory>
#include <vector>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/value.h"

#include "checkpoint/open/read_storages.h"

namespace torch::nn {
class Module;
}

namespace cairn {

// Memory of live tensors that a checkpoint is read into: until fill() the elements of before stand
// there.
//
// What is for devices is read with one call, too: each piece goes into a buffer of DeviceWrites as
// soon as it is there, and on to the device while others are read. So the disk has all of it to do
// at once, and waits for a device only when that is slower.
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
  // Error when a weight was given other memory meanwhile.
  void check() const;
  // Reads; what is for devices by `put`, which is null where memory of the host is meant.
  using Read = std::function<void(const std::vector<StorageRead>& reads, const PutBytes& put)>;
  // Behind check(). What `read` and libtorch throw: then, too, no device is at work in it any more.
  void fill(const Read& read) const;

 private:
  void fill_devices(const Read& read) const;
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
