// The memory of a device (a GPU) as storages of the core, copied to the host when they are read.
//
// clang-format off
//  1. Making a storage copies nothing and waits for nothing. It keeps the memory alive, and notes
//     the stream on which the program was computing.
//  2. All storages of a device are ranges of one source. So a caller that gathers many storages,
//     such as a snapshot, reads them with one call.
//  3. That call waits, on the device, for what was enqueued before: on the caller's current stream
//     and on the streams noted in step 1.
//  4. It copies by lanes, each a thread, as one processor is slower than a device. Each lane has
//     two staging buffers in pinned memory, each filled on its own side stream. While the device
//     fills one buffer, the lane copies the other to its places. If many small pieces fill a
//     buffer, they are first gathered in a room on the device, if there is memory for it, and
//     copied as one. The rooms belong to the current stream again when the call returns.
//  5. The call returns when all bytes are on the host, so it does not see what is enqueued later.
//     On an error, too, the call waits until the device is done with memory and buffers.
// clang-format on
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Storage.h>

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "cairn/bytes.h"
#include "cairn/tensor.h"

namespace cairn {

class UploadLanes;

// `memory` lies on a device other than the CPU that has streams. For other memory throws
// UsageError, which says how to save it. Reading throws StorageError if the device fails, and
// UsageError if the memory has become smaller since. The location is the device's name, such as
// "cuda:0".
std::shared_ptr<const Storage> device_storage(const c10::Storage& memory);
// As device_storage(). Precondition: the memory has no other owner, and no enqueued work uses it.
std::shared_ptr<const Storage> fresh_device_storage(const c10::Storage& memory);

// The memory of a storage that one of these two functions made; null for any other storage.
const c10::StorageImpl* device_memory_of(const Storage& storage);
// The memory of a fresh_device_storage(); null for any other storage, since any stream may still
// work on its memory.
const c10::StorageImpl* fresh_device_memory_of(const Storage& storage);

// Notes this thread's current stream for all live storages of `device`: a read of them waits for
// the stream. device_storage() notes the current stream, too. A stream that libtorch does not own
// must outlive the storages.
void note_stream(c10::Device device);

// Whether device_storage() accepts memory of this device.
bool has_streams(c10::Device device);

// Copies elements from the host to memory of devices: many tensors at once, like step 4 in the
// other direction. Precondition: only work on this thread's current stream still uses that memory.
class DeviceUploads {
 public:
  // Whether the pair can be uploaded. Other dtypes or orders of elements need to.copy_(from).
  static bool takes(const at::Tensor& to, const at::Tensor& from);

  // The pair must satisfy takes(). `from` must stay unchanged until finish(), which writes `to`.
  void add(at::Tensor to, at::Tensor from);
  // Bytes added since the last finish().
  std::uint64_t bytes() const { return bytes_; }
  // Returns when the elements are on the devices. Throws libtorch's exceptions; the added pairs are
  // then dropped, too.
  void finish();

 private:
  struct Tensors {
    at::Tensor to;
    at::Tensor from;
  };
  static void upload(std::span<const Tensors> tensors, c10::Device device);

  std::vector<Tensors> tensors_;
  std::uint64_t bytes_ = 0;
};

// As DeviceUploads, for bytes that come piece by piece, from several threads, while other bytes are
// still read. A thread waits for a device only when both buffers of its lane are full.
class DeviceWrites {
 public:
  // `memory`: all that will be written, each storage once, on devices that satisfy has_streams().
  // Until finish(), only earlier work on this thread's current streams may use it. Throws as
  // device_storage(), and libtorch's exceptions.
  explicit DeviceWrites(std::vector<c10::Storage> memory);
  // Waits until the devices are done, also after an exception.
  ~DeviceWrites();
  DeviceWrites(const DeviceWrites&) = delete;
  DeviceWrites& operator=(const DeviceWrites&) = delete;

  // Whether the address lies in the memory. Thread-safe.
  bool has(const std::byte* address) const { return find(address) != nullptr; }
  // Copies `bytes` to an address for which has() is true. Does not use `bytes` after it returns.
  // Thread-safe. Throws libtorch's exceptions.
  void write(const std::byte* to, ByteView bytes);
  // Call it once, after the last write(). Returns when all bytes are on the devices. Throws
  // libtorch's exceptions.
  void finish();

 private:
  const c10::Storage* find(const std::byte* address) const;

  std::vector<c10::Storage> memory_;  // By address.
  std::vector<std::pair<c10::Device, std::unique_ptr<UploadLanes>>> devices_;
};

}  // namespace cairn
