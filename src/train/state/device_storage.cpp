#include "train/state/device_storage.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "cairn/error.h"
#include "cairn/node_arena.h"

#include "io/stream_copy.h"
#include "train/state/tensor_bridge.h"

namespace cairn {
namespace {

constexpr std::size_t kStagingBytes = std::size_t{8} << 20;  // of each of the two buffers
constexpr std::size_t kStagedAlignment = 64;
constexpr std::size_t kLeastUpload = std::size_t{1} << 20;  // less is libtorch's own copy

struct DevicePiece {
  c10::Storage memory;
  std::uint64_t offset;
  std::span<std::byte> into;
};

// Memory that the device can write to while the host goes on. Where it has none (libtorch pins for
// CUDA and the like), any: then the copies do not overlap, and are right.
at::Tensor staging_of(std::size_t bytes, std::atomic<bool>& can_pin) {
  const auto size = static_cast<std::int64_t>(bytes);
  const at::TensorOptions options = at::TensorOptions(at::kByte);
  if (can_pin) {
    try {
      return at::empty({size}, options.pinned_memory(true));
    } catch (const c10::Error&) {
      can_pin = false;
    }
  }
  return at::empty({size}, options);
}

// Two buffers, each with a side stream of its own. What they are used for is waited for in the end,
// also when something was thrown: until then the device may be at work in them.
class StagingBuffers {
 public:
  using Streams = std::array<c10::Stream, 2>;

  StagingBuffers(const Streams& streams, std::uint64_t bytes, std::atomic<bool>& can_pin)
      : device_(streams[0].device()),
        can_pin_(can_pin),
        bytes_(static_cast<std::size_t>(std::min<std::uint64_t>(bytes, kStagingBytes))),
        buffers_{Buffer{streams[0]}, Buffer{streams[1]}} {}
  StagingBuffers(const StagingBuffers&) = delete;
  StagingBuffers& operator=(const StagingBuffers&) = delete;
  ~StagingBuffers() {
    for (Buffer& buffer : buffers_) {
      try {
        wait(buffer);
      } catch (...) {  // the error that is on its way says what happened
      }
    }
  }

  // Both side streams wait for what is on `work` now.
  void wait_for(const c10::Stream& work) {
    c10::Event done(device_.type());
    done.record(work);
    for (const Buffer& buffer : buffers_) {
      done.block(buffer.stream);
    }
  }

 protected:
  struct Place {
    std::size_t begin;  // in the buffer
    std::span<std::byte> into;
  };
  struct Buffer {
    c10::Stream stream;
    at::Tensor staging = {};
    bool is_at_work = false;
    std::size_t used = 0;
    std::vector<Place> places = {};
  };

  Buffer& buffer() { return buffers_[current_]; }
  void turn() { current_ = 1 - current_; }
  std::size_t bytes() const { return bytes_; }

  // Part of the buffer.
  at::Tensor staged(Buffer& buffer, std::size_t begin, std::size_t size) const {
    if (!buffer.staging.defined()) buffer.staging = staging_of(bytes_, can_pin_);
    return buffer.staging.narrow(0, static_cast<std::int64_t>(begin),
                                 static_cast<std::int64_t>(size));
  }
  at::Tensor on_device(const c10::Storage& memory, std::uint64_t offset, std::size_t size) const {
    const auto count = static_cast<std::int64_t>(size);
    return tensor_over(memory, {{count}, {1}, static_cast<std::int64_t>(offset)},
                       at::TensorOptions(at::kByte).device(device_));
  }
  static void enqueue(Buffer& buffer, at::Tensor to, const at::Tensor& from) {
    const c10::StreamGuard on_side(buffer.stream);
    buffer.is_at_work = true;  // before: the device may have begun when something is thrown
    to.copy_(from, /*non_blocking=*/true);
  }
  void wait(Buffer& buffer) const {
    if (!buffer.is_at_work) return;
    buffer.is_at_work = false;
    c10::impl::VirtualGuardImpl(device_.type()).synchronizeStream(buffer.stream);
  }

 private:
  const c10::Device device_;
  std::atomic<bool>& can_pin_;
  const std::size_t bytes_;  // of each
  std::array<Buffer, 2> buffers_;
  std::size_t current_ = 0;
};

// Steps 4 and 5, once.
class StagedCopy : public StagingBuffers {
 public:
  using StagingBuffers::StagingBuffers;

  void copy(const DevicePiece& piece) {
    std::uint64_t offset = piece.offset;
    std::span<std::byte> into = piece.into;
    while (!into.empty()) {
      if (buffer().used == bytes()) {
        turn();
        empty(buffer());
      }
      Buffer& filled = buffer();
      const std::size_t size = std::min(into.size(), bytes() - filled.used);
      filled.places.push_back({filled.used, into.first(size)});
      enqueue(filled, staged(filled, filled.used, size), on_device(piece.memory, offset, size));
      const std::size_t end = filled.used + size + kStagedAlignment - 1;
      filled.used = std::min(end / kStagedAlignment * kStagedAlignment, bytes());
      offset += size;
      into = into.subspan(size);
    }
  }

  void finish() {
    turn();  // the older one first
    empty(buffer());
    turn();
    empty(buffer());
  }

 private:
  void empty(Buffer& filled) {
    if (filled.places.empty()) return;
    wait(filled);
    const auto* const from = static_cast<const std::byte*>(filled.staging.data_ptr());
    StreamCopier copier;
    for (const Place& place : filled.places) {
      copier.copy(place.into.data(), from + place.begin, place.into.size());
    }
    filled.places.clear();
    filled.used = 0;
  }
};

// The other way: returns when all of it is on the device.
class StagedUpload : public StagingBuffers {
 public:
  using StagingBuffers::StagingBuffers;

  void copy(ByteView from, const c10::Storage& memory) {
    for (std::uint64_t done = 0; done < from.size(); turn()) {
      Buffer& filled = buffer();
      wait(filled);
      const std::size_t size = std::min<std::size_t>(from.size() - done, bytes());
      const at::Tensor part = staged(filled, 0, size);
      std::memcpy(part.data_ptr(), from.data() + done, size);
      enqueue(filled, on_device(memory, done, size), part);
      done += size;
    }
    for (int i = 0; i < 2; ++i, turn()) {
      wait(buffer());
    }
  }
};

// Step 2: every storage of a device has a range, which no other gets.
class DeviceMemory final : public ByteSource {
 public:
  // One a device. UsageError when it has no streams.
  static std::shared_ptr<DeviceMemory> of(c10::Device device);

  explicit DeviceMemory(c10::Device device)
      : device_(device), name_(device.str()), sides_{side_stream(), side_stream()} {}

  std::uint64_t size() const override {
    const std::lock_guard lock(mutex_);
    return end_;
  }
  const std::string& name() const override { return name_; }
  void read(std::span<const Range> ranges) const override;
  // `memory` is of this device, new, and as long as `bytes`. What libtorch throws.
  void upload(ByteView bytes, const c10::Storage& memory) const;

  std::uint64_t add(const c10::Storage& memory);
  void remove(std::uint64_t begin);
  void note_stream();

 private:
  c10::impl::VirtualGuardImpl guard() const { return c10::impl::VirtualGuardImpl(device_.type()); }
  c10::Stream side_stream() const { return guard().getStreamFromGlobalPool(device_); }
  DevicePiece piece_of(const Range& range) const;  // with the lock held

  const c10::Device device_;
  const std::string name_;
  const StagingBuffers::Streams sides_;
  mutable std::atomic<bool> can_pin_ = true;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, c10::Storage> memories_;  // by where they begin
  std::uint64_t end_ = 0;
  std::vector<c10::Stream> streams_;  // step 1's
};

std::shared_ptr<DeviceMemory> DeviceMemory::of(c10::Device device) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<DeviceMemory>> known;
  const std::lock_guard lock(mutex);
  std::shared_ptr<DeviceMemory>& memory = known[device.str()];
  if (memory == nullptr) {
    try {
      memory = std::make_shared<DeviceMemory>(device);
    } catch (const c10::Error& e) {
      throw UsageError("a tensor on " + device.str() + " cannot be saved from there (" +
                       e.what_without_backtrace() + "); save its .cpu()");
    }
  }
  return memory;
}

std::uint64_t DeviceMemory::add(const c10::Storage& memory) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t begin = end_;
  memories_.emplace_hint(memories_.end(), begin, memory);
  end_ += std::max<std::uint64_t>(memory.nbytes(), 1);
  return begin;
}

void DeviceMemory::remove(std::uint64_t begin) {
  std::map<std::uint64_t, c10::Storage>::node_type memory;  // let go of without the lock
  const std::lock_guard lock(mutex_);
  memory = memories_.extract(begin);
  if (memories_.empty()) streams_.clear();
}

void DeviceMemory::note_stream() {
  const c10::Stream stream = guard().getStream(device_);
  const std::lock_guard lock(mutex_);
  if (std::ranges::find(streams_, stream) == streams_.end()) streams_.push_back(stream);
}

DevicePiece DeviceMemory::piece_of(const Range& range) const {
  const auto behind = memories_.upper_bound(range.offset);
  if (behind != memories_.begin()) {
    const auto& [begin, memory] = *std::prev(behind);
    const std::uint64_t offset = range.offset - begin;
    const std::uint64_t bytes = memory.nbytes();
    if (offset <= bytes && range.into.size() <= bytes - offset) return {memory, offset, range.into};
  }
  throw UsageError("bytes of " + name_ + " were asked for that no storage has any more: one was " +
                   "resized after its state_dict() was taken, or given back");
}

void DeviceMemory::read(std::span<const Range> ranges) const {
  std::vector<DevicePiece> pieces;
  std::vector<c10::Stream> streams = {guard().getStream(device_)};
  std::uint64_t bytes = 0;
  {
    const std::lock_guard lock(mutex_);
    for (const Range& range : ranges) {
      if (range.into.empty()) continue;
      pieces.push_back(piece_of(range));
      bytes += range.into.size() + kStagedAlignment;
    }
    streams.insert(streams.end(), streams_.begin(), streams_.end());
  }
  if (pieces.empty()) return;
  try {
    const torch::NoGradGuard no_grad;
    StagedCopy copy(sides_, bytes, can_pin_);
    for (const c10::Stream& stream : streams) {
      copy.wait_for(stream);
    }
    for (const DevicePiece& piece : pieces) {
      copy.copy(piece);
    }
    copy.finish();
  } catch (const c10::Error& e) {
    throw StorageError(
        "cannot copy the tensors of " + name_ + " to the host: " + e.what_without_backtrace(), EIO);
  }
}

void DeviceMemory::upload(ByteView bytes, const c10::Storage& memory) const {
  StagedUpload upload(sides_, bytes.size(), can_pin_);
  upload.wait_for(guard().getStream(device_));  // which may still use what had this memory before
  upload.copy(bytes, memory);
}

class DeviceStorage final : public Storage {
 public:
  DeviceStorage(std::shared_ptr<DeviceMemory> device, const c10::Storage& memory)
      : Storage(memory.nbytes(), device->name()),
        device_(std::move(device)),
        begin_(device_->add(memory)) {}
  ~DeviceStorage() override { device_->remove(begin_); }

  const ByteSource* source() const override { return device_.get(); }
  std::uint64_t source_offset() const override { return begin_; }

 protected:
  void read(std::uint64_t offset, std::span<std::byte> into) const override {
    const ByteSource::Range range{begin_ + offset, into};
    device_->read({&range, 1});
  }

 private:
  const std::shared_ptr<DeviceMemory> device_;
  const std::uint64_t begin_;
};

}  // namespace

std::shared_ptr<const Storage> device_storage(const c10::Storage& memory) {
  const std::shared_ptr<DeviceMemory> device = DeviceMemory::of(memory.device());
  auto made =
      std::allocate_shared<const DeviceStorage>(NodeAllocator<DeviceStorage>(), device, memory);
  device->note_stream();
  return made;
}

void note_stream(c10::Device device) { DeviceMemory::of(device)->note_stream(); }

void copy_to_new(at::Tensor& to, const at::Tensor& from) {
  const torch::NoGradGuard no_grad;
  const auto bytes = static_cast<std::size_t>(from.numel()) * from.element_size();
  const bool is_alike = to.scalar_type() == from.scalar_type() && to.sizes() == from.sizes() &&
                        to.strides() == from.strides() && from.is_non_overlapping_and_dense() &&
                        !from.is_conj() && !from.is_neg() && to.storage_offset() == 0;
  if (!to.is_cpu() && from.is_cpu() && is_alike && bytes >= kLeastUpload &&
      to.storage().nbytes() >= bytes) {
    std::shared_ptr<DeviceMemory> device;
    try {
      device = DeviceMemory::of(to.device());
    } catch (const UsageError&) {  // no side streams
    }
    const ByteView elements{static_cast<const std::byte*>(from.data_ptr()), bytes};
    if (device != nullptr) return device->upload(elements, to.storage());
  }
  to.copy_(from);
}

}  // namespace cairn
