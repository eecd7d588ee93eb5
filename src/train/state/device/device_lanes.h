// The lanes of device_storage.h, through which bytes move to a device and from it.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Storage.h>
#include <c10/core/Stream.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "cairn/bytes.h"

#include "io/bytes/stream_copy.h"
#include "train/state/device/tensor_bridge.h"

namespace cairn {

constexpr unsigned kMaxLanes = 8;
constexpr std::size_t kStagedAlignment = 64;
constexpr std::size_t kWorthGathering = 8;  // Pieces. Each separate copy costs as much as 200 KiB.

// A range of a storage, and its source or target on the host.
template <class Bytes>
struct DevicePiece {
  c10::Storage memory;
  std::uint64_t offset;
  Bytes host;
};
using DeviceDownload = DevicePiece<std::span<std::byte>>;
using DeviceUpload = DevicePiece<ByteView>;

// The number of lanes for so many bytes, and the size of each of their buffers.
unsigned lanes_for(std::uint64_t bytes);
std::size_t buffer_bytes_for(std::uint64_t bytes, unsigned lanes);

// Knowledge about libtorch's page-locked memory for a device.
struct Pinning {
  std::atomic<bool> has_worked = false;
  std::atomic<bool> is_missing = false;  // Failed before it ever worked.
};

// Two buffers, each with its own side stream. The destructor waits for the device to finish with
// them, also after an exception: until then the device may be using them.
class StagingLane {
 public:
  using Streams = std::array<c10::Stream, 2>;

  // Shared by all lanes of a call.
  struct Common {
    std::vector<c10::Event> before;  // Events that the lanes' streams wait for.
    std::size_t buffer_bytes;
    at::Tensor rooms;  // On the device, two per lane; or undefined.
    Pinning& pinning;
  };

  StagingLane(const Streams& streams, std::size_t index, const Common& common);
  StagingLane(const StagingLane&) = delete;
  StagingLane& operator=(const StagingLane&) = delete;
  ~StagingLane();

 protected:
  struct BufferRange {
    std::size_t begin;  // In the buffer.
    std::span<std::byte> into;
  };
  struct Buffer {
    c10::Stream stream;
    at::Tensor staging = {};
    at::Tensor room = {};  // As many bytes on the device, or undefined.
    bool is_at_work = false;
    std::vector<BufferRange> places = {};
  };

  std::size_t buffer_bytes() const { return bytes_; }
  // The buffer that was not used last.
  Buffer& next();
  at::Tensor staged(Buffer& buffer, std::size_t begin, std::size_t size) const;
  static at::Tensor room(const Buffer& buffer, std::size_t begin, std::size_t size);
  template <class Bytes>
  at::Tensor on_device(const DevicePiece<Bytes>& piece) const {
    const auto count = static_cast<std::int64_t>(piece.host.size());
    return tensor_over(piece.memory, {{count}, {1}, static_cast<std::int64_t>(piece.offset)},
                       at::TensorOptions(at::kByte).device(device_));
  }
  static void enqueue(Buffer& buffer, at::Tensor to, const at::Tensor& from);
  // Copies by way of the room on the device, if there is one, so that the host copies once for many
  // pieces. Returns whether `enqueue_all` succeeded. A device that cannot do this is asked once.
  bool copy_through_room(Buffer& buffer, std::size_t pieces,
                         const std::function<void()>& enqueue_all);
  void wait(Buffer& buffer) const;

 private:
  const c10::Device device_;
  Pinning& pinning_;
  const std::size_t bytes_;
  std::array<Buffer, 2> buffers_;
  std::size_t current_ = 0;
};

class DownloadLane : public StagingLane {
 public:
  using StagingLane::StagingLane;
  static constexpr bool kUsesRooms = true;

  // The pieces must fit into a buffer.
  void copy(std::span<const DeviceDownload> pieces);
  void finish();

 private:
  void gather(Buffer& filled, std::span<const DeviceDownload> pieces) const;
  void empty(Buffer& filled);
};

// Copies from the host to the device. A buffer goes to the device when the buffer is full, or on
// flush().
class UploadLane : public StagingLane {
 public:
  using StagingLane::StagingLane;
  static const bool kUsesRooms;

  // Copies at once. The pieces must fit into a buffer.
  void copy(std::span<const DeviceUpload> pieces);
  // The piece may have any size, including 0. Call stream_fence() before another thread's turn.
  void add(const DeviceUpload& piece);
  void flush();
  void finish();

 private:
  void add_piece(const DeviceUpload& piece);

  Buffer* filling_ = nullptr;
  std::size_t used_ = 0;              // Bytes used in filling_.
  std::vector<DeviceUpload> pieces_;  // The pieces in filling_.
};

// Lanes that threads use in turns.
class UploadLanes {
 public:
  // At most as many lanes as there are streams for.
  UploadLanes(std::span<const StagingLane::Streams> sides, StagingLane::Common common);

  // Copies the bytes. The device has them after finish(). Thread-safe.
  void write(const DeviceUpload& piece);
  void finish();

 private:
  class Turn;  // A thread's exclusive use of a lane.

  StagingLane::Common common_;  // Outlives the lanes.
  std::vector<std::unique_ptr<UploadLane>> lanes_;
  std::mutex mutex_;
  std::condition_variable given_back_;
  std::vector<UploadLane*> free_;  // The last one's buffer may be partly filled.
};

}  // namespace cairn
