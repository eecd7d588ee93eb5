// The lanes of device_storage.h, through which bytes go to a device and come from there.
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

constexpr unsigned kMostLanes = 8;
constexpr std::size_t kStagedAlignment = 64;
constexpr std::size_t kWorthGathering = 8;  // pieces: each copy of its own costs as much as 200 KiB

// So much of a storage, and where it is, or goes to, on the host.
template <class Bytes>
struct DevicePiece {
  c10::Storage memory;
  std::uint64_t offset;
  Bytes host;
};
using DeviceDownload = DevicePiece<std::span<std::byte>>;
using DeviceUpload = DevicePiece<ByteView>;

// How many for so many bytes, and how much each of their buffers has.
unsigned lanes_for(std::uint64_t bytes);
std::size_t buffer_bytes_for(std::uint64_t bytes, unsigned lanes);

// Of libtorch's page-locked memory, what is known of a device.
struct Pinning {
  std::atomic<bool> has_worked = false;
  std::atomic<bool> is_missing = false;  // failed before it ever worked
};

// Two buffers, each with a side stream of its own. What they are used for is waited for in the end,
// also when something was thrown: until then the device may be at work in them.
class StagingLane {
 public:
  using Streams = std::array<c10::Stream, 2>;

  // What all lanes of a call share.
  struct Common {
    std::vector<c10::Event> before;  // what their streams wait for
    std::size_t buffer_bytes;
    at::Tensor rooms;  // on the device, two for each lane; or undefined
    Pinning& pinning;
  };

  StagingLane(const Streams& streams, std::size_t index, const Common& common);
  StagingLane(const StagingLane&) = delete;
  StagingLane& operator=(const StagingLane&) = delete;
  ~StagingLane();

 protected:
  struct BufferRange {
    std::size_t begin;  // in the buffer
    std::span<std::byte> into;
  };
  struct Buffer {
    c10::Stream stream;
    at::Tensor staging = {};
    at::Tensor room = {};  // as much on the device, or undefined
    bool is_at_work = false;
    std::vector<BufferRange> places = {};
  };

  std::size_t buffer_bytes() const { return bytes_; }
  // The other one than the last time.
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
  // Whether `enqueue_all` could: by way of the room, where there is one, so that the host copies
  // once for many pieces. A device that cannot is asked once.
  bool by_way_of_room(Buffer& buffer, std::size_t pieces, const std::function<void()>& enqueue_all);
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

  // What fits a buffer.
  void copy(std::span<const DeviceDownload> pieces);
  void finish();

 private:
  void gather(Buffer& filled, std::span<const DeviceDownload> pieces) const;
  void empty(Buffer& filled);
};

// The other way. A buffer goes to the device when it is full, or flush() is called.
class UploadLane : public StagingLane {
 public:
  using StagingLane::StagingLane;
  static const bool kUsesRooms;

  // What fits a buffer, at once.
  void copy(std::span<const DeviceUpload> pieces);
  // The piece may have any size, also 0. A stream_fence() comes before another thread's turn.
  void add(const DeviceUpload& piece);
  void flush();
  void finish();

 private:
  void add_piece(const DeviceUpload& piece);

  Buffer* filling_ = nullptr;
  std::size_t used_ = 0;              // of that
  std::vector<DeviceUpload> pieces_;  // that stand there
};

// Lanes that threads have by turns.
class UploadLanes {
 public:
  // As many as there are streams for.
  UploadLanes(std::span<const StagingLane::Streams> sides, StagingLane::Common common);

  // Copies the bytes; what the device has of them is known behind finish(). From any thread.
  void write(const DeviceUpload& piece);
  void finish();

 private:
  class Turn;  // of a thread, which has a lane to itself

  StagingLane::Common common_;  // outlives them
  std::vector<std::unique_ptr<UploadLane>> lanes_;
  std::mutex mutex_;
  std::condition_variable given_back_;
  std::vector<UploadLane*> free_;  // the last one's buffer may have something
};

}  // namespace cairn
