#include "train/state/device/staged_reads.h"

#include <utility>

#include "checkpoint/open/checkpoint.h"
#include "checkpoint/open/read_storages.h"
#include "checkpoint/open/verify/whole_read.h"
#include "train/state/device/device_storage.h"

namespace cairn {

void StagedReads::add(std::shared_ptr<const Storage> from, c10::Storage into) {
  reads_.push_back({std::move(from), std::move(into)});
}

std::uint64_t StagedReads::bytes_on_host() const {
  std::uint64_t bytes = 0;
  for (const Read& read : reads_) {
    if (read.into.device().is_cpu()) bytes += read.into.nbytes();
  }
  return bytes;
}

void StagedReads::drop_unneeded() {
  std::erase_if(reads_, [](const Read& read) { return read.into.use_count() == 1; });
}

std::vector<StorageRead> StagedReads::places() const {
  std::vector<StorageRead> places;
  places.reserve(reads_.size());
  for (const Read& read : reads_) {
    auto* const data = static_cast<std::byte*>(read.into.data_ptr().get());  // data() may be const.
    places.push_back({read.from, {data, read.into.nbytes()}});
  }
  return places;
}

std::vector<c10::Storage> StagedReads::on_devices() const {
  std::vector<c10::Storage> found;
  for (const Read& read : reads_) {
    if (!read.into.device().is_cpu()) found.push_back(read.into);
  }
  return found;
}

bool may_read_to_devices(const Checkpoint& checkpoint) {
  return WholeRead::file_of(checkpoint) != nullptr;
}

void read_staged(StagedReads reads) {
  reads.drop_unneeded();
  read_storages(reads.places());
}

VerifyReport read_staged(const Checkpoint& checkpoint, StagedReads reads, Verify how) {
  reads.drop_unneeded();
  const std::vector<c10::Storage> on_devices = reads.on_devices();
  if (on_devices.empty()) return checkpoint.read(reads.places(), how);
  DeviceWrites writes(on_devices);
  const PutBytes put = {
      .is_elsewhere = [&](const std::byte* place) { return writes.has(place); },
      .put = [&](auto into, ByteView bytes) { writes.write(into.data(), bytes); }};
  VerifyReport report = read_elsewhere(checkpoint, reads.places(), how, put);
  writes.finish();
  return report;
}

}  // namespace cairn
