#include "train/state/staged_reads.h"

#include "checkpoint/open/checkpoint.h"
#include "checkpoint/open/whole_read.h"
#include "train/state/device_storage.h"

namespace cairn {

bool may_read_to_devices(const Checkpoint& checkpoint) {
  return WholeRead::file_of(checkpoint) != nullptr;
}

VerifyReport read_staged(const Checkpoint& checkpoint, const StagedReads& reads, Verify how) {
  if (reads.on_devices.empty()) return checkpoint.read(reads.reads, how);
  DeviceWrites writes(reads.on_devices);
  const PutBytes put = {
      .is_elsewhere = [&](const std::byte* place) { return writes.has(place); },
      .put = [&](auto into, ByteView bytes) { writes.write(into.data(), bytes); }};
  VerifyReport report = read_elsewhere(checkpoint, reads.reads, how, put);
  writes.finish();
  return report;
}

}  // namespace cairn
