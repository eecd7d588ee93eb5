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
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <typeinfo>
#include <utility>
#include <vector>

#include "cairn/error.h"
#include "cairn/node_arena.h"

#include "core/round_up.h"
#include "io/device_source.h"
#include "io/parallel.h"
#include "io/stream_copy.h"
#include "train/state/tensor_bridge.h"

namespace cairn {
namespace {

// Of each buffer: 64 MiB in all. One processor copies out of them at a fraction of a device's rate.
constexpr std::size_t kStagingBytes = std::size_t{4} << 20;
constexpr unsigned kMostLanes = 8;
constexpr std::uint64_t kLaneBytes = std::uint64_t{4} << 20;  // for less a thread does not pay
constexpr std::size_t kStagedAlignment = 64;
constexpr std::size_t kWorthGathering = 8;  // pieces: each copy of its own costs as much as 200 KiB

// So much of a storage, and where it is, or goes to, on the host.
template <class Bytes>
struct DevicePiece {
  c10::Storage memory;
  std::uint64_t offset;
  Bytes host;
};

unsigned lanes_for(std::uint64_t bytes) {
  const unsigned most = std::clamp(std::thread::hardware_concurrency(), 1u, kMostLanes);
  return static_cast<unsigned>(std::clamp<std::uint64_t>(bytes / kLaneBytes, 1, most));
}

// Each lane fills both of its buffers, where there is enough.
std::size_t buffer_bytes_for(std::uint64_t bytes, unsigned lanes) {
  const std::uint64_t share = round_up(bytes / (2 * lanes), kStagedAlignment);
  const std::uint64_t least = std::min<std::uint64_t>(bytes, kLaneBytes / 4);
  return static_cast<std::size_t>(std::clamp<std::uint64_t>(share, least, kStagingBytes));
}

// Of libtorch's page-locked memory, what is known of a device.
struct Pinning {
  std::atomic<bool> has_worked = false;
  std::atomic<bool> is_missing = false;  // failed before it ever worked
};

// Memory that the device can write to while the host goes on. Where it has none (libtorch pins for
// CUDA and the like), or none is left, any: then the copies do not overlap, and are right.
at::Tensor staging_of(std::size_t bytes, Pinning& pinning) {
  const auto size = static_cast<std::int64_t>(bytes);
  const at::TensorOptions options = at::TensorOptions(at::kByte);
  if (!pinning.is_missing) {
    try {
      at::Tensor made = at::empty({size}, options.pinned_memory(true));
      pinning.has_worked = true;
      return made;
    } catch (const c10::Error&) {
      if (!pinning.has_worked) pinning.is_missing = true;
    }
  }
  return at::empty({size}, options);
}

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

  StagingLane(const Streams& streams, std::size_t index, Common& common)
      : device_(streams[0].device()),
        pinning_(common.pinning),
        bytes_(common.buffer_bytes),
        buffers_{Buffer{streams[0]}, Buffer{streams[1]}} {
    const auto bytes = static_cast<std::int64_t>(bytes_);
    auto begin = static_cast<std::int64_t>(2 * index) * bytes;
    for (Buffer& buffer : buffers_) {
      if (common.rooms.defined()) buffer.room = common.rooms.narrow(0, begin, bytes);
      begin += bytes;
    }
    for (const c10::Event& event : common.before) {
      for (const Buffer& buffer : buffers_) {
        event.block(buffer.stream);
      }
    }
  }
  StagingLane(const StagingLane&) = delete;
  StagingLane& operator=(const StagingLane&) = delete;
  ~StagingLane() {
    for (Buffer& buffer : buffers_) {
      try {
        wait(buffer);
      } catch (...) {  // the error that is on its way says what happened
      }
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
    at::Tensor room = {};  // as much on the device, or undefined
    bool is_at_work = false;
    std::vector<Place> places = {};
  };

  // The other one than the last time.
  Buffer& next() {
    current_ = 1 - current_;
    return buffers_[current_];
  }
  at::Tensor staged(Buffer& buffer, std::size_t begin, std::size_t size) const {
    if (!buffer.staging.defined()) buffer.staging = staging_of(bytes_, pinning_);
    return buffer.staging.narrow(0, static_cast<std::int64_t>(begin),
                                 static_cast<std::int64_t>(size));
  }
  static at::Tensor room(const Buffer& buffer, std::size_t begin, std::size_t size) {
    return buffer.room.narrow(0, static_cast<std::int64_t>(begin), static_cast<std::int64_t>(size));
  }
  template <class Bytes>
  at::Tensor on_device(const DevicePiece<Bytes>& piece) const {
    const auto count = static_cast<std::int64_t>(piece.host.size());
    return tensor_over(piece.memory, {{count}, {1}, static_cast<std::int64_t>(piece.offset)},
                       at::TensorOptions(at::kByte).device(device_));
  }
  static void enqueue(Buffer& buffer, at::Tensor to, const at::Tensor& from) {
    const c10::StreamGuard on_side(buffer.stream);
    buffer.is_at_work = true;  // before: the device may have begun when something is thrown
    to.copy_(from, /*non_blocking=*/true);
  }
  // Whether `enqueue_all` could: by way of the room, where there is one, so that the host copies
  // once for many pieces. A device that cannot is asked once.
  bool by_way_of_room(Buffer& buffer, std::size_t pieces,
                      const std::function<void()>& enqueue_all) {
    if (pieces < kWorthGathering || !buffer.room.defined()) return false;
    try {
      const c10::StreamGuard on_side(buffer.stream);
      buffer.is_at_work = true;
      enqueue_all();
      return true;
    } catch (const c10::Error&) {  // a device that is broken says so again, piece by piece
    }
    for (Buffer& one : buffers_) {
      wait(one);
      one.room = at::Tensor();
    }
    return false;
  }
  void wait(Buffer& buffer) const {
    if (!buffer.is_at_work) return;
    buffer.is_at_work = false;
    c10::impl::VirtualGuardImpl(device_.type()).synchronizeStream(buffer.stream);
  }

 private:
  const c10::Device device_;
  Pinning& pinning_;
  const std::size_t bytes_;
  std::array<Buffer, 2> buffers_;
  std::size_t current_ = 0;
};

using Download = DevicePiece<std::span<std::byte>>;
using Upload = DevicePiece<ByteView>;

// Steps 4 and 5 of one lane.
class DownloadLane : public StagingLane {
 public:
  using StagingLane::StagingLane;
  static constexpr bool kUsesRooms = true;

  // What fits a buffer.
  void copy(std::span<const Download> pieces) {
    Buffer& filled = next();
    empty(filled);
    if (by_way_of_room(filled, pieces.size(), [&] { gather(filled, pieces); })) return;
    filled.places.clear();
    std::size_t used = 0;
    for (const Download& piece : pieces) {
      filled.places.push_back({used, piece.host});
      enqueue(filled, staged(filled, used, piece.host.size()), on_device(piece));
      used += round_up(piece.host.size(), kStagedAlignment);
    }
  }

  void finish() {
    empty(next());  // the older one first
    empty(next());
  }

 private:
  void gather(Buffer& filled, std::span<const Download> pieces) const {
    std::vector<at::Tensor> parts;
    parts.reserve(pieces.size());
    std::size_t used = 0;
    for (const Download& piece : pieces) {
      parts.push_back(on_device(piece));
      filled.places.push_back({used, piece.host});
      used += piece.host.size();
    }
    at::Tensor gathered = room(filled, 0, used);
    at::cat_out(gathered, parts);
    staged(filled, 0, used).copy_(gathered, /*non_blocking=*/true);
  }

  void empty(Buffer& filled) {
    if (filled.places.empty()) return;
    wait(filled);
    const auto* const from = static_cast<const std::byte*>(filled.staging.data_ptr());
    StreamCopier copier;
    for (const Place& place : filled.places) {
      copier.copy(place.into.data(), from + place.begin, place.into.size());
    }
    filled.places.clear();
  }
};

// to[i].copy_(from[i]) of each; with few kernels for many, where libtorch can.
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 1)
constexpr bool kCanSpread = true;
void spread(const std::vector<at::Tensor>& to, const std::vector<at::Tensor>& from) {
  at::_foreach_copy_(to, from);
}
#else
constexpr bool kCanSpread = false;
void spread(const std::vector<at::Tensor>& to, const std::vector<at::Tensor>& from) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    to[i].copy_(from[i]);
  }
}
#endif

// The other way.
class UploadLane : public StagingLane {
 public:
  using StagingLane::StagingLane;
  static constexpr bool kUsesRooms = kCanSpread;

  void copy(std::span<const Upload> pieces) {
    Buffer& filled = next();
    wait(filled);
    if (by_way_of_room(filled, pieces.size(), [&] { scatter(filled, pieces); })) return;
    std::size_t used = 0;
    for (const Upload& piece : pieces) {
      const at::Tensor part = staged(filled, used, piece.host.size());
      stream_copy(static_cast<std::byte*>(part.data_ptr()), piece.host.data(), piece.host.size());
      enqueue(filled, on_device(piece), part);
      used += round_up(piece.host.size(), kStagedAlignment);
    }
  }

  void finish() {
    wait(next());
    wait(next());
  }

 private:
  void scatter(Buffer& filled, std::span<const Upload> pieces) const {
    std::vector<at::Tensor> to;
    std::vector<at::Tensor> from;
    std::size_t used = 0;
    StreamCopier copier;
    auto* const staging = static_cast<std::byte*>(staged(filled, 0, 1).data_ptr());
    for (const Upload& piece : pieces) {
      copier.copy(staging + used, piece.host.data(), piece.host.size());
      to.push_back(on_device(piece));
      from.push_back(room(filled, used, piece.host.size()));
      used += round_up(piece.host.size(), kStagedAlignment);
    }
    copier.fence();
    room(filled, 0, used).copy_(staged(filled, 0, used), /*non_blocking=*/true);
    spread(to, from);
  }
};

// Step 2: every storage of a device has a range, which no other gets.
class DeviceMemory final : public DeviceSource {
 public:
  // One a device. UsageError when it has no streams.
  static std::shared_ptr<DeviceMemory> of(c10::Device device);

  explicit DeviceMemory(c10::Device device) : device_(device), name_(device.str()) {
    while (sides_.size() < kMostLanes) {
      sides_.push_back({side_stream(), side_stream()});
    }
  }

  std::uint64_t size() const override {
    const std::lock_guard lock(mutex_);
    return end_;
  }
  const std::string& name() const override { return name_; }
  void read(std::span<const Range> ranges) const override;
  // What libtorch throws.
  void upload(const std::vector<Upload>& pieces) const {
    copy<UploadLane>(pieces, {guard().getStream(device_)});  // which may still use what was there
  }

  std::uint64_t add(const c10::Storage& memory);
  void remove(std::uint64_t begin);
  void note_stream();

 private:
  using Memories = std::map<std::uint64_t, c10::Storage>;  // by where they begin

  c10::impl::VirtualGuardImpl guard() const { return c10::impl::VirtualGuardImpl(device_.type()); }
  c10::Stream side_stream() const { return guard().getStreamFromGlobalPool(device_); }
  // With the lock held. `at`: where the range before was found; becomes where this one is. In the
  // order of their offsets nothing is looked for.
  Download piece_of(const Range& range, Memories::const_iterator& at) const;
  // Memory of the device, of the current stream; undefined when there is none left.
  at::Tensor rooms(std::size_t bytes) const;
  // Steps 3 to 5, by lanes of this kind.
  template <class Lane, class Piece>
  void copy(const std::vector<Piece>& wholes, const std::vector<c10::Stream>& streams) const;

  const c10::Device device_;
  const std::string name_;
  std::vector<StagingLane::Streams> sides_;
  mutable Pinning pinning_;
  mutable std::mutex mutex_;
  Memories memories_;
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
  Memories::node_type memory;  // let go of without the lock
  const std::lock_guard lock(mutex_);
  memory = memories_.extract(begin);
  if (memories_.empty()) streams_.clear();
}

void DeviceMemory::note_stream() {
  const c10::Stream stream = guard().getStream(device_);
  const std::lock_guard lock(mutex_);
  if (std::ranges::find(streams_, stream) == streams_.end()) streams_.push_back(stream);
}

Download DeviceMemory::piece_of(const Range& range, Memories::const_iterator& at) const {
  const auto begins_behind = [&](Memories::const_iterator memory) {
    return memory == memories_.end() || range.offset < memory->first;
  };
  if (!begins_behind(at) && !begins_behind(std::next(at))) ++at;
  if (begins_behind(at) || !begins_behind(std::next(at))) {
    at = memories_.upper_bound(range.offset);
    if (at != memories_.begin()) --at;
  }
  if (!begins_behind(at)) {
    const auto& [begin, memory] = *at;
    const std::uint64_t offset = range.offset - begin;
    const std::uint64_t bytes = memory.nbytes();
    if (offset <= bytes && range.into.size() <= bytes - offset) return {memory, offset, range.into};
  }
  throw UsageError("bytes of " + name_ + " were asked for that no storage has any more: one was " +
                   "resized after its state_dict() was taken, or given back");
}

at::Tensor DeviceMemory::rooms(std::size_t bytes) const {
  try {
    return at::empty({static_cast<std::int64_t>(bytes)},
                     at::TensorOptions(at::kByte).device(device_));
  } catch (const c10::Error&) {
    return {};
  }
}

template <class Lane, class Piece>
void DeviceMemory::copy(const std::vector<Piece>& wholes,
                        const std::vector<c10::Stream>& streams) const {
  std::uint64_t bytes = 0;
  for (const Piece& whole : wholes) {
    bytes += round_up(whole.host.size(), kStagedAlignment);
  }
  const unsigned lanes = lanes_for(bytes);
  const std::size_t buffer_bytes = buffer_bytes_for(bytes, lanes);
  std::vector<Piece> pieces;       // that fit a buffer
  std::vector<std::size_t> fills;  // of a buffer: the first piece of each
  pieces.reserve(wholes.size() + bytes / buffer_bytes);
  std::size_t room = 0;
  for (const Piece& whole : wholes) {
    for (std::size_t done = 0; done < whole.host.size();) {
      const std::size_t size = std::min(buffer_bytes, whole.host.size() - done);
      if (size > room) {
        fills.push_back(pieces.size());
        room = buffer_bytes;
      }
      room -= std::min(round_up(size, kStagedAlignment), room);
      pieces.push_back({whole.memory, whole.offset + done, whole.host.subspan(done, size)});
      done += size;
    }
  }
  StagingLane::Common common{
      .before = {}, .buffer_bytes = buffer_bytes, .rooms = {}, .pinning = pinning_};
  const auto pieces_of = [&](std::size_t fill) {
    const std::size_t end = fill + 1 < fills.size() ? fills[fill + 1] : pieces.size();
    return std::span(pieces).subspan(fills[fill], end - fills[fill]);
  };
  bool has_small = false;
  for (std::size_t fill = 0; fill < fills.size(); ++fill) {
    has_small |= pieces_of(fill).size() >= kWorthGathering;
  }
  if (Lane::kUsesRooms && has_small) common.rooms = rooms(2 * lanes * buffer_bytes);
  for (const c10::Stream& stream : streams) {
    common.before.emplace_back(device_.type()).record(stream);
  }
  std::atomic<std::size_t> next = 0;
  const auto work = [&](std::size_t i) {
    const torch::NoGradGuard no_grad;
    try {
      Lane lane(sides_[i], i, common);
      for (std::size_t fill = next++; fill < fills.size(); fill = next++) {
        lane.copy(pieces_of(fill));
      }
      lane.finish();
    } catch (...) {
      next = fills.size();  // a few increments past it do no harm
      throw;
    }
  };
  for_each_in_lanes(lanes, lanes, work);
}

void DeviceMemory::read(std::span<const Range> ranges) const {
  std::vector<Download> pieces;
  std::vector<c10::Stream> streams = {guard().getStream(device_)};
  {
    const std::lock_guard lock(mutex_);
    Memories::const_iterator memory = memories_.begin();
    for (const Range& range : ranges) {
      if (!range.into.empty()) pieces.push_back(piece_of(range, memory));
    }
    streams.insert(streams.end(), streams_.begin(), streams_.end());
  }
  if (pieces.empty()) return;
  try {
    copy<DownloadLane>(pieces, streams);
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
        memory_(memory.unsafeGetStorageImpl()),
        begin_(device_->add(memory)) {}
  ~DeviceStorage() override { device_->remove(begin_); }

  const ByteSource* source() const override { return device_.get(); }
  std::uint64_t source_offset() const override { return begin_; }
  const c10::StorageImpl* memory() const { return memory_; }

 protected:
  void read(std::uint64_t offset, std::span<std::byte> into) const override {
    const ByteSource::Range range{begin_ + offset, into};
    device_->read({&range, 1});
  }

 private:
  const std::shared_ptr<DeviceMemory> device_;
  const c10::StorageImpl* const memory_;  // which device_ keeps
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

const c10::StorageImpl* device_memory_of(const Storage& storage) {
  if (typeid(storage) != typeid(DeviceStorage)) return nullptr;
  return static_cast<const DeviceStorage&>(storage).memory();
}

void note_stream(c10::Device device) { DeviceMemory::of(device)->note_stream(); }

bool DeviceUploads::takes(const at::Tensor& to, const at::Tensor& from) {
  const bool is_alike = to.scalar_type() == from.scalar_type() && to.sizes() == from.sizes() &&
                        to.strides() == from.strides() && from.is_non_overlapping_and_dense() &&
                        !from.is_conj() && !from.is_neg() && to.storage_offset() == 0;
  return is_alike && !to.is_cpu() && from.is_cpu() && to.storage().nbytes() >= from.nbytes();
}

void DeviceUploads::add(at::Tensor to, at::Tensor from) {
  bytes_ += from.nbytes();
  tensors_.push_back({std::move(to), std::move(from)});
}

void DeviceUploads::finish() {
  bytes_ = 0;
  std::vector<Tensors> left = std::exchange(tensors_, {});
  while (!left.empty()) {
    const c10::Device device = left.front().to.device();
    const auto others = std::stable_partition(
        left.begin(), left.end(), [&](const Tensors& one) { return one.to.device() != device; });
    upload({others, left.end()}, device);
    left.erase(others, left.end());
  }
}

void DeviceUploads::upload(std::span<const Tensors> tensors, c10::Device device) {
  const torch::NoGradGuard no_grad;
  std::shared_ptr<DeviceMemory> memory;
  try {
    memory = DeviceMemory::of(device);
  } catch (const UsageError&) {  // it has no side streams
    for (const auto& [to, from] : tensors) {
      to.copy_(from);
    }
    return;
  }
  std::vector<Upload> pieces;
  for (const auto& [to, from] : tensors) {
    const ByteView elements{static_cast<const std::byte*>(from.data_ptr()), from.nbytes()};
    if (!elements.empty()) pieces.push_back({to.storage(), 0, elements});
  }
  if (!pieces.empty()) memory->upload(pieces);
}

}  // namespace cairn
