// Reading a checkpoint's storages into places, of which some are memory of devices.
//
// What is for devices goes there with the one read of all: each piece into a buffer of DeviceWrites
// as soon as it is there and checked, and on to its device while others are read. So the disk has
// everything to do at once, and waits for a device only when that is slower; and the host never
// holds more of it than those buffers.
#pragma once

#include <c10/core/Storage.h>

#include <vector>

#include "cairn/checkpoint/checkpoint.h"

namespace cairn {

struct StagedReads {
  std::vector<StorageRead> reads;
  // The memory that the places of some of them are of; their addresses are all that is used of
  // those. Each storage once.
  std::vector<c10::Storage> on_devices;
};

// Whether read_staged() takes what is `on_devices`: of one file that is read as it lies there.
bool may_read_to_devices(const Checkpoint& checkpoint);

// Fills the places: as Checkpoint::read(), and what libtorch throws. Then, too, no device is at
// work in them any more. What is on this thread's current streams may use that memory before, and
// nobody else meanwhile.
VerifyReport read_staged(const Checkpoint& checkpoint, const StagedReads& reads, Verify how);

}  // namespace cairn
