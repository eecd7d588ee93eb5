// The memory of a device (a GPU) as storages of the core, copied to the host when they are read.
//
// clang-format off
//  1. Making one copies nothing and waits for nothing: it keeps the memory alive, and notes on
//     which stream the program was computing.
//  2. All storages of a device are ranges of one source. So whoever gathers many, as a snapshot
//     does, reads them with one call.
//  3. That call waits, on the device, for what was enqueued before: on the caller's current stream
//     and on those of 1.
//  4. It copies by lanes, each a thread, as one processor is slower than a device. Each has two
//     staging buffers in pinned memory, each filled on a side stream of its own: while the device
//     fills one, what is in the other goes to its places. Where many small pieces fill a buffer
//     they are put together in a room on the device first, if there is memory for it, and copied
//     as one. The rooms are the current stream's when the call returns.
//  5. It returns when all bytes are there, so what is enqueued later is not seen. On an error, too,
//     it waits until the device is done with memory and buffers.
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

// `memory` lies on another device than the CPU, one that has streams; UsageError says how to save
// what does not. Reading it throws StorageError when the device fails, and UsageError when the
// memory has become smaller since. The location is the device's name, "cuda:0".
std::shared_ptr<const Storage> device_storage(const c10::Storage& memory);
// The same of memory that nobody else has, and that nothing was enqueued for yet.
std::shared_ptr<const Storage> fresh_device_storage(const c10::Storage& memory);

// The memory of either; null of any other.
const c10::StorageImpl* device_memory_of(const Storage& storage);
// Of a fresh_device_storage() alone: the device may be at work in that of others, of any stream.
const c10::StorageImpl* fresh_device_memory_of(const Storage& storage);

// Notes the current stream of this thread for all storages of `device` that live: what is on it
// when they are read is waited for. device_storage() does it, too. A stream that is not libtorch's
// own must outlive the storages.
void note_stream(c10::Device device);

// Whether device_storage() takes its memory.
bool has_streams(c10::Device device);

// Elements of the host for memory of devices: many tensors at once, as in 4, the other way. What is
// on this thread's current stream may still use that memory before, and nobody else.
class DeviceUploads {
 public:
  // Whether this is one. Not between two dtypes, or orders of elements: that is to.copy_(from).
  static bool takes(const at::Tensor& to, const at::Tensor& from);

  // What it takes. `from` must stay as it is until finish(), which writes `to`.
  void add(at::Tensor to, at::Tensor from);
  // Of what was added since the last finish().
  std::uint64_t bytes() const { return bytes_; }
  // They are there when it returns. What libtorch throws; then, too, nothing is left to do.
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

// The same of bytes that come bit by bit, from several threads at once, while others are still
// read: none waits for a device until both buffers of its lane are full.
class DeviceWrites {
 public:
  // `memory`: all that will be written, each storage once, of devices that has_streams(). What is
  // on this thread's current streams may still use it before, and nobody else until finish(). What
  // device_storage() and libtorch throw.
  explicit DeviceWrites(std::vector<c10::Storage> memory);
  // Waits until the devices are done, also when something was thrown.
  ~DeviceWrites();
  DeviceWrites(const DeviceWrites&) = delete;
  DeviceWrites& operator=(const DeviceWrites&) = delete;

  // Whether an address is in the memory. From any thread.
  bool has(const std::byte* address) const { return find(address) != nullptr; }
  // Copies `bytes` before it returns, which go to such an address. From any thread. What libtorch
  // throws.
  void write(const std::byte* to, ByteView bytes);
  // They are there when it returns, once, when nobody writes any more. What libtorch throws.
  void finish();

 private:
  const c10::Storage* find(const std::byte* address) const;

  std::vector<c10::Storage> memory_;  // by address
  std::vector<std::pair<c10::Device, std::unique_ptr<UploadLanes>>> devices_;
};

}  // namespace cairn
