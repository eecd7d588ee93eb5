#include "train/data/device_copies.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/torch.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace cairn {
namespace {

// The stream for copies to the device, the same in the whole process: an allocator keeps memory
// for each stream. nullopt if the device has no stream beside its first.
std::optional<c10::Stream> stream_for_copies(const at::Device& device) {
  static std::mutex mutex;
  static std::map<std::string, std::optional<c10::Stream>> known;
  const std::lock_guard lock(mutex);
  const auto [found, is_new] = known.try_emplace(device.str());
  if (is_new) {
    try {
      found->second = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
    } catch (const c10::Error&) {
    }
  }
  return found->second;
}

}  // namespace

Batch to_device(Batch batch, const at::Device& device) {
  if (device.is_cpu()) return batch;
  const auto copy_to_device = [&device](const at::Tensor& tensor) {
    return tensor.to(at::TensorOptions(device), /*non_blocking=*/true);
  };
  const std::optional<c10::Stream> side = stream_for_copies(device);
  if (!side) return batch.map(copy_to_device);
  const c10::impl::VirtualGuardImpl guard(device.type());
  const c10::Stream computing = guard.getStream(device);
  std::optional<c10::Event> copied;
  Batch placed = batch.map([&](const at::Tensor& tensor) {
    if (!tensor.is_cpu() || !tensor.has_storage()) return copy_to_device(tensor);
    const c10::StreamGuard on_side(*side);
    at::Tensor made = copy_to_device(tensor);
    guard.recordDataPtrOnStream(made.storage().data_ptr(), computing);
    if (!copied) copied.emplace(device.type());
    return made;
  });
  if (copied) {
    copied->record(*side);
    copied->block(computing);
  }
  return placed;
}

}  // namespace cairn
