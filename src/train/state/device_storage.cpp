#include "train/state/device_storage.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "cairn/error.h"

#include "io/stream_copy.h"
#include "train/state/tensor_bridge.h"

namespace cairn {
namespace {

constexpr std::size_t kStagingBytes = std::size_t{8} << 20;  // of each of the two buffers
constexpr std::size_t kStagedAlignment = 64;

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

// Steps 3 to 5, once.
class StagedCopy {
 public:
  using Streams = std::array<c10::Stream, 2>;

  StagedCopy(const Streams& streams, std::uint64_t bytes, std::atomic<bool>& can_pin)
      : device_(streams[0].device()),
        can_pin_(can_pin),
        buffer_bytes_(static_cast<std::size_t>(std::min<std::uint64_t>(bytes, kStagingBytes))),
        buffers_{Buffer{streams[0]}, Buffer{streams[1]}} {}
  StagedCopy(const StagedCopy&) = delete;
  StagedCopy& operator=(const StagedCopy&) = delete;
  ~StagedCopy() {
    for (Buffer& buffer : buffers_) {
      if (buffer.places.empty()) continue;
      try {
        wait(buffer);
      } catch (...) {  // the error that is on its way says what happened
      }
    }
  }

  void wait_for(const c10::Stream& work) {
    c10::Event done(device_.type());
    done.record(work);
    for (const Buffer& buffer : buffers_) {
      done.block(buffer.stream);
    }
  }

  void copy(const DevicePiece& piece) {
    std::uint64_t offset = piece.offset;
    std::span<std::byte> into = piece.into;
    while (!into.empty()) {
      Buffer* buffer = &buffers_[filling_];
      if (buffer->used == buffer_bytes_) {
        filling_ = 1 - filling_;
        buffer = &buffers_[filling_];
        empty(*buffer);
      }
      const std::size_t size = std::min(into.size(), buffer_bytes_ - buffer->used);
      fill(*buffer, piece.memory, offset, into.first(size));
      offset += size;
      into = into.subspan(size);
    }
  }

  void finish() {
    empty(buffers_[1 - filling_]);  // the older one
    empty(buffers_[filling_]);
  }

 private:
  struct Place {
    std::size_t begin;  // in the buffer
    std::span<std::byte> into;
  };
  struct Buffer {
    c10::Stream stream;
    at::Tensor staging = {};
    std::size_t used = 0;
    std::vector<Place> places = {};
  };

  void fill(Buffer& buffer, const c10::Storage& memory, std::uint64_t offset,
            std::span<std::byte> into) {
    if (!buffer.staging.defined()) buffer.staging = staging_of(buffer_bytes_, can_pin_);
    const auto size = static_cast<std::int64_t>(into.size());
    const at::Tensor from = tensor_over(memory, {{size}, {1}, static_cast<std::int64_t>(offset)},
                                        at::TensorOptions(at::kByte).device(device_));
    const at::Tensor to = buffer.staging.narrow(0, static_cast<std::int64_t>(buffer.used), size);
    buffer.places.push_back({buffer.used, into});  // before: the device may have begun
    const c10::StreamGuard on_side(buffer.stream);
    to.copy_(from, /*non_blocking=*/true);
    const std::size_t end = buffer.used + into.size() + kStagedAlignment - 1;
    buffer.used = std::min(end / kStagedAlignment * kStagedAlignment, buffer_bytes_);
  }

  void wait(const Buffer& buffer) const {
    c10::impl::VirtualGuardImpl(device_.type()).synchronizeStream(buffer.stream);
  }

  void empty(Buffer& buffer) {
    if (buffer.places.empty()) return;
    wait(buffer);
    const auto* const staged = static_cast<const std::byte*>(buffer.staging.data_ptr());
    StreamCopier copier;
    for (const Place& place : buffer.places) {
      copier.copy(place.into.data(), staged + place.begin, place.into.size());
    }
    buffer.places.clear();
    buffer.used = 0;
  }

  const c10::Device device_;
  std::atomic<bool>& can_pin_;
  const std::size_t buffer_bytes_;
  std::array<Buffer, 2> buffers_;
  std::size_t filling_ = 0;
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

  std::uint64_t add(const c10::Storage& memory);
  void remove(std::uint64_t begin);
  void note_stream();

 private:
  c10::impl::VirtualGuardImpl guard() const { return c10::impl::VirtualGuardImpl(device_.type()); }
  c10::Stream side_stream() const { return guard().getStreamFromGlobalPool(device_); }
  DevicePiece piece_of(const Range& range) const;  // with the lock held

  const c10::Device device_;
  const std::string name_;
  const StagedCopy::Streams sides_;
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
  const std::lock_guard lock(mutex_);
  memories_.erase(begin);
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
  auto made = std::make_shared<const DeviceStorage>(device, memory);
  device->note_stream();
  return made;
}

void note_stream(c10::Device device) { DeviceMemory::of(device)->note_stream(); }

}  // namespace cairn
