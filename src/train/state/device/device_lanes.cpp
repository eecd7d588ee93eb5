#include "train/state/device/device_lanes.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/torch.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "core/round_up.h"

namespace cairn {
namespace {

// The size of a buffer. All buffers together have 64 MiB. One processor copies out of the buffers
// at a fraction of a device's rate.
constexpr std::size_t kStagingBytes = std::size_t{4} << 20;
constexpr std::uint64_t kLaneBytes = std::uint64_t{4} << 20;  // For less, a thread does not pay.

// Memory that the device can write to while the host does other work. If libtorch cannot pin memory
// for this device, or no such memory is left, this is ordinary memory: copies are then correct but
// do not overlap.
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

// Calls to[i].copy_(from[i]) for each i. If this libtorch can do so, uses few kernels for many
// tensors.
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

}  // namespace

unsigned lanes_for(std::uint64_t bytes) {
  const unsigned most = std::clamp(std::thread::hardware_concurrency(), 1u, kMaxLanes);
  return static_cast<unsigned>(std::clamp<std::uint64_t>(bytes / kLaneBytes, 1, most));
}

// Each lane fills both of its buffers, if there are enough bytes.
std::size_t buffer_bytes_for(std::uint64_t bytes, unsigned lanes) {
  const std::uint64_t share = round_up(bytes / (std::uint64_t{2} * lanes), kStagedAlignment);
  const std::uint64_t least = std::min<std::uint64_t>(bytes, kLaneBytes / 4);
  return static_cast<std::size_t>(std::clamp<std::uint64_t>(share, least, kStagingBytes));
}

// --- A lane --------------------------------------------------------------------------------------

StagingLane::StagingLane(const Streams& streams, std::size_t index, const Common& common)
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

StagingLane::~StagingLane() {
  for (Buffer& buffer : buffers_) {
    try {
      wait(buffer);
    } catch (...) {  // Another exception is under way, which says what happened.
    }
  }
}

StagingLane::Buffer& StagingLane::next() {
  current_ = 1 - current_;
  return buffers_[current_];
}

at::Tensor StagingLane::staged(Buffer& buffer, std::size_t begin, std::size_t size) const {
  if (!buffer.staging.defined()) buffer.staging = staging_of(bytes_, pinning_);
  return buffer.staging.narrow(0, static_cast<std::int64_t>(begin),
                               static_cast<std::int64_t>(size));
}

at::Tensor StagingLane::room(const Buffer& buffer, std::size_t begin, std::size_t size) {
  return buffer.room.narrow(0, static_cast<std::int64_t>(begin), static_cast<std::int64_t>(size));
}

void StagingLane::enqueue(Buffer& buffer, at::Tensor to, const at::Tensor& from) {
  const c10::StreamGuard on_side(buffer.stream);
  buffer.is_at_work = true;  // Set it first: the device may have begun even if copy_() throws.
  to.copy_(from, /*non_blocking=*/true);
}

bool StagingLane::copy_through_room(Buffer& buffer, std::size_t pieces,
                                    const std::function<void()>& enqueue_all) {
  if (pieces < kWorthGathering || !buffer.room.defined()) return false;
  try {
    const c10::StreamGuard on_side(buffer.stream);
    buffer.is_at_work = true;
    enqueue_all();
    return true;
  } catch (const c10::Error&) {  // A broken device fails again, piece by piece.
  }
  for (Buffer& one : buffers_) {
    wait(one);
    one.room = at::Tensor();
  }
  return false;
}

void StagingLane::wait(Buffer& buffer) const {
  if (!buffer.is_at_work) return;
  buffer.is_at_work = false;
  c10::impl::VirtualGuardImpl(device_.type()).synchronizeStream(buffer.stream);
}

// --- From a device -------------------------------------------------------------------------------

void DownloadLane::copy(std::span<const DeviceDownload> pieces) {
  Buffer& filled = next();
  empty(filled);
  if (copy_through_room(filled, pieces.size(), [&] { gather(filled, pieces); })) return;
  filled.places.clear();
  std::size_t used = 0;
  for (const DeviceDownload& piece : pieces) {
    filled.places.push_back({used, piece.host});
    enqueue(filled, staged(filled, used, piece.host.size()), on_device(piece));
    used += round_up(piece.host.size(), kStagedAlignment);
  }
}

void DownloadLane::finish() {
  empty(next());  // The older one first.
  empty(next());
}

void DownloadLane::gather(Buffer& filled, std::span<const DeviceDownload> pieces) const {
  std::vector<at::Tensor> parts;
  parts.reserve(pieces.size());
  std::size_t used = 0;
  for (const DeviceDownload& piece : pieces) {
    parts.push_back(on_device(piece));
    filled.places.push_back({used, piece.host});
    used += piece.host.size();
  }
  at::Tensor gathered = room(filled, 0, used);
  at::cat_out(gathered, parts);
  staged(filled, 0, used).copy_(gathered, /*non_blocking=*/true);
}

void DownloadLane::empty(Buffer& filled) {
  if (filled.places.empty()) return;
  wait(filled);
  const auto* const from = static_cast<const std::byte*>(filled.staging.data_ptr());
  for (const BufferRange& place : filled.places) {
    stream_copy_unfenced(place.into.data(), from + place.begin, place.into.size());
  }
  stream_fence();
  filled.places.clear();
}

// --- To a device ---------------------------------------------------------------------------------

const bool UploadLane::kUsesRooms = kCanSpread;

void UploadLane::copy(std::span<const DeviceUpload> pieces) {
  for (const DeviceUpload& piece : pieces) {
    add(piece);
  }
  flush();
}

void UploadLane::add(const DeviceUpload& piece) {
  for (std::size_t done = 0; done < piece.host.size();) {
    if (filling_ != nullptr && used_ == buffer_bytes()) flush();
    if (filling_ == nullptr) {
      Buffer& emptied = next();
      wait(emptied);
      filling_ = &emptied;
    }
    const std::size_t size = std::min(piece.host.size() - done, buffer_bytes() - used_);
    auto* const to = static_cast<std::byte*>(staged(*filling_, used_, size).data_ptr());
    stream_copy_unfenced(to, piece.host.data() + done, size);
    add_piece({piece.memory, piece.offset + done, {to, size}});
    used_ = std::min(used_ + round_up(size, kStagedAlignment), buffer_bytes());
    done += size;
  }
}

// A piece that continues the previous one, on both sides, is copied together with it.
void UploadLane::add_piece(const DeviceUpload& piece) {
  DeviceUpload* const last = pieces_.empty() ? nullptr : &pieces_.back();
  const bool goes_on = last != nullptr &&
                       last->memory.unsafeGetStorageImpl() == piece.memory.unsafeGetStorageImpl() &&
                       last->offset + last->host.size() == piece.offset &&
                       last->host.data() + last->host.size() == piece.host.data();
  if (goes_on) {
    last->host = {last->host.data(), last->host.size() + piece.host.size()};
  } else {
    pieces_.push_back(piece);
  }
}

void UploadLane::flush() {
  if (pieces_.empty()) return;
  stream_fence();  // The bytes that the device reads now were copied past the cache.
  Buffer& filled = *std::exchange(filling_, nullptr);
  const std::size_t used = std::exchange(used_, 0);
  const std::vector<DeviceUpload> pieces = std::exchange(pieces_, {});
  const auto* const begin = static_cast<const std::byte*>(filled.staging.data_ptr());
  const auto begin_of = [&](const DeviceUpload& piece) {
    return static_cast<std::size_t>(piece.host.data() - begin);
  };
  const auto scatter = [&] {
    std::vector<at::Tensor> to;
    std::vector<at::Tensor> from;
    for (const DeviceUpload& piece : pieces) {
      to.push_back(on_device(piece));
      from.push_back(room(filled, begin_of(piece), piece.host.size()));
    }
    room(filled, 0, used).copy_(staged(filled, 0, used), /*non_blocking=*/true);
    spread(to, from);
  };
  if (copy_through_room(filled, pieces.size(), scatter)) return;
  for (const DeviceUpload& piece : pieces) {
    enqueue(filled, on_device(piece), staged(filled, begin_of(piece), piece.host.size()));
  }
}

void UploadLane::finish() {
  flush();
  wait(next());
  wait(next());
}

UploadLanes::UploadLanes(std::span<const StagingLane::Streams> sides, StagingLane::Common common)
    : common_(std::move(common)) {
  for (std::size_t i = 0; i < sides.size(); ++i) {
    lanes_.push_back(std::make_unique<UploadLane>(sides[i], i, common_));
    free_.push_back(lanes_.back().get());
  }
}

class UploadLanes::Turn {
 public:
  explicit Turn(UploadLanes& of) : of_(of) {
    std::unique_lock lock(of_.mutex_);
    of_.given_back_.wait(lock, [&] { return !of_.free_.empty(); });
    lane_ = of_.free_.back();
    of_.free_.pop_back();
  }
  ~Turn() {
    {
      const std::lock_guard lock(of_.mutex_);
      of_.free_.push_back(lane_);  // Does not allocate: the lane was in this vector before.
    }
    of_.given_back_.notify_one();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  UploadLane& lane() const { return *lane_; }

 private:
  UploadLanes& of_;
  UploadLane* lane_;
};

void UploadLanes::write(const DeviceUpload& piece) {
  const Turn turn(*this);
  const torch::NoGradGuard no_grad;
  turn.lane().add(piece);
  stream_fence();  // Before another thread's turn.
}

void UploadLanes::finish() {
  const torch::NoGradGuard no_grad;
  for (const auto& lane : lanes_) {
    lane->flush();
  }
  for (const auto& lane : lanes_) {
    lane->finish();
  }
}

}  // namespace cairn
