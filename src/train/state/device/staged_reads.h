// Reads a checkpoint's storages into memory, some of it on devices.
//
// StagedReads owns the memory that it reads into until the bytes are there. A tree of Values that
// is no longer needed may be dropped before its bytes have come.
//
// Bytes for devices go there during the one read of the file. Each piece is read into a buffer of
// DeviceWrites, checked, and sent on to its device while other pieces are read. So the disk is
// always busy, and waits for a device only if the device is slower. The host never holds more bytes
// for devices than those buffers.
#pragma once

#include <c10/core/Storage.h>

#include <memory>
#include <vector>

#include "cairn/checkpoint/checkpoint.h"

namespace cairn {

class StagedReads {
 public:
  void reserve(std::size_t reads) { reads_.reserve(reads); }
  bool empty() const { return reads_.empty(); }
  // Reads `from` into all of `into`, memory of the host or of a device. Add each storage once.
  void add(std::shared_ptr<const Storage> from, c10::Storage into);

  // Bytes that go into memory of the host.
  std::uint64_t bytes_on_host() const;

 private:
  friend void read_staged(StagedReads reads);
  friend VerifyReport read_staged(const Checkpoint& checkpoint, StagedReads reads, Verify how);

  struct Read {
    std::shared_ptr<const Storage> from;
    c10::Storage into;
  };
  // Removes the reads into memory that has no other owner any more.
  void drop_unneeded();
  // The reads to do. Their targets are in the memory that this object owns.
  std::vector<StorageRead> places() const;
  std::vector<c10::Storage> on_devices() const;

  std::vector<Read> reads_;
};

// Whether read_staged() can fill memory of devices. This is possible only for a checkpoint of one
// file whose bytes are used as stored.
bool may_read_to_devices(const Checkpoint& checkpoint);

// Both functions fill the memory of `reads`, and give up their ownership of it. Memory without
// another owner is not filled. The first function checks nothing, and takes only memory of the
// host; throws StorageError and CorruptError. The second one calls Checkpoint::read(), and also
// throws libtorch's exceptions. When the second one returns or throws, no device works in that
// memory any more. Before that, only work on this thread's current streams may use the memory.
void read_staged(StagedReads reads);
VerifyReport read_staged(const Checkpoint& checkpoint, StagedReads reads, Verify how);

}  // namespace cairn
