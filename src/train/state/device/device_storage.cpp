#include "train/state/device/device_storage.h"

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/torch.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <map>
#include <mutex>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "cairn/detail/node_arena.h"
#include "cairn/error.h"

#include "core/round_up.h"
#include "io/bytes/device_source.h"
#include "io/threads/parallel.h"
#include "train/state/device/device_lanes.h"

namespace cairn {
namespace {

// Step 2: every storage of a device has a range of its own.
class DeviceMemory final : public DeviceSource {
 public:
  // Returns the object of the device. Throws UsageError if the device has no streams.
  static std::shared_ptr<DeviceMemory> of(c10::Device device);

  explicit DeviceMemory(c10::Device device) : device_(device), name_(device.str()) {
    while (sides_.size() < kMaxLanes) {
      sides_.push_back({side_stream(), side_stream()});
    }
  }

  std::uint64_t size() const override {
    const std::lock_guard lock(mutex_);
    return end_;
  }
  const std::string& name() const override { return name_; }
  void read(std::span<const Range> ranges) const override;
  // Throws libtorch's exceptions.
  void upload(const std::vector<DeviceUpload>& pieces) const {
    // This stream may still use the old elements.
    copy<UploadLane>(pieces, {guard().getStream(device_)});
  }
  // Lanes for so many bytes, at most `most`. Throws libtorch's exceptions.
  std::unique_ptr<UploadLanes> lanes_to(std::uint64_t bytes, bool has_small, unsigned most) const;

  std::uint64_t add(const c10::Storage& memory);
  void remove(std::uint64_t begin);
  void note_stream();

 private:
  using Memories = std::map<std::uint64_t, c10::Storage>;  // By the begin of each one's range.

  c10::impl::VirtualGuardImpl guard() const { return c10::impl::VirtualGuardImpl(device_.type()); }
  c10::Stream side_stream() const { return guard().getStreamFromGlobalPool(device_); }
  // Call it with the lock held. `at` is the place where the previous range was found, and becomes
  // the place of this range. Ranges in the order of their offsets need no search.
  DeviceDownload piece_of(const Range& range, Memories::const_iterator& at) const;
  // Memory of the device, for the current stream; undefined if none is left.
  at::Tensor rooms(std::size_t bytes) const;
  // Does steps 3 to 5, with lanes of the class Lane.
  template <class Lane, class Piece>
  void copy(const std::vector<Piece>& wholes, const std::vector<c10::Stream>& streams) const;

  const c10::Device device_;
  const std::string name_;
  std::vector<StagingLane::Streams> sides_;
  mutable Pinning pinning_;
  mutable std::mutex mutex_;
  Memories memories_;
  std::uint64_t end_ = 0;
  std::vector<c10::Stream> streams_;  // The streams noted in step 1.
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
  Memories::node_type memory;  // Destroyed after the lock is released.
  const std::lock_guard lock(mutex_);
  memory = memories_.extract(begin);
  if (memories_.empty()) streams_.clear();
}

void DeviceMemory::note_stream() {
  const c10::Stream stream = guard().getStream(device_);
  const std::lock_guard lock(mutex_);
  if (std::ranges::find(streams_, stream) == streams_.end()) streams_.push_back(stream);
}

DeviceDownload DeviceMemory::piece_of(const Range& range, Memories::const_iterator& at) const {
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
  throw UsageError("bytes of " + name_ +
                   " were requested that no storage holds any more: a storage " +
                   "was resized or freed after its state_dict() was taken");
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
  std::vector<Piece> pieces;       // Each fits into a buffer.
  std::vector<std::size_t> fills;  // For each filling of a buffer, its first piece.
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
  if (Lane::kUsesRooms && has_small) common.rooms = rooms(std::size_t{2} * lanes * buffer_bytes);
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
      next = fills.size();  // A few increments past the end do no harm.
      throw;
    }
  };
  for_each_in_lanes(lanes, lanes, work);
}

std::unique_ptr<UploadLanes> DeviceMemory::lanes_to(std::uint64_t bytes, bool has_small,
                                                    unsigned most) const {
  const unsigned lanes = std::min(lanes_for(bytes), most);
  const std::size_t buffer_bytes = buffer_bytes_for(bytes, lanes);
  StagingLane::Common common{
      .before = {}, .buffer_bytes = buffer_bytes, .rooms = {}, .pinning = pinning_};
  if (UploadLane::kUsesRooms && has_small)
    common.rooms = rooms(std::size_t{2} * lanes * buffer_bytes);
  common.before.emplace_back(device_.type()).record(guard().getStream(device_));
  return std::make_unique<UploadLanes>(std::span(sides_).first(lanes), std::move(common));
}

void DeviceMemory::read(std::span<const Range> ranges) const {
  std::vector<DeviceDownload> pieces;
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

const std::byte* begin_of(const c10::Storage& memory) {
  return static_cast<const std::byte*>(memory.data());
}

class DeviceStorage final : public Storage {
 public:
  DeviceStorage(std::shared_ptr<DeviceMemory> device, const c10::Storage& memory, bool is_fresh)
      : Storage(memory.nbytes(), device->name()),
        device_(std::move(device)),
        memory_(memory.unsafeGetStorageImpl()),
        begin_(device_->add(memory)),
        is_fresh_(is_fresh) {}
  ~DeviceStorage() override { device_->remove(begin_); }

  const ByteSource* source() const override { return device_.get(); }
  std::uint64_t source_offset() const override { return begin_; }
  const c10::StorageImpl* memory() const { return memory_; }
  bool is_fresh() const { return is_fresh_; }

 protected:
  void read(std::uint64_t offset, std::span<std::byte> into) const override {
    const ByteSource::Range range{begin_ + offset, into};
    device_->read({&range, 1});
  }

 private:
  const std::shared_ptr<DeviceMemory> device_;
  const c10::StorageImpl* const memory_;  // device_ keeps it alive.
  const std::uint64_t begin_;
  const bool is_fresh_;
};

std::shared_ptr<const Storage> storage_of_device(const c10::Storage& memory, bool is_fresh) {
  const std::shared_ptr<DeviceMemory> device = DeviceMemory::of(memory.device());
  auto made = std::allocate_shared<const DeviceStorage>(detail::NodeAllocator<DeviceStorage>(),
                                                        device, memory, is_fresh);
  device->note_stream();
  return made;
}

}  // namespace

std::shared_ptr<const Storage> device_storage(const c10::Storage& memory) {
  return storage_of_device(memory, /*is_fresh=*/false);
}

std::shared_ptr<const Storage> fresh_device_storage(const c10::Storage& memory) {
  return storage_of_device(memory, /*is_fresh=*/true);
}

const c10::StorageImpl* device_memory_of(const Storage& storage) {
  if (typeid(storage) != typeid(DeviceStorage)) return nullptr;
  return static_cast<const DeviceStorage&>(storage).memory();
}

const c10::StorageImpl* fresh_device_memory_of(const Storage& storage) {
  const c10::StorageImpl* const memory = device_memory_of(storage);
  const bool is_fresh = memory != nullptr && static_cast<const DeviceStorage&>(storage).is_fresh();
  return is_fresh ? memory : nullptr;
}

bool has_streams(c10::Device device) {
  if (device.is_cpu() || device.is_meta()) return false;
  // The same device is asked about repeatedly, and "no" costs an exception.
  thread_local std::pair<c10::Device, bool> last(c10::kCPU, false);
  if (last.first == device) return last.second;
  bool has = true;
  try {
    DeviceMemory::of(device);
  } catch (const UsageError&) {
    has = false;
  }
  last = {device, has};
  return has;
}

void note_stream(c10::Device device) { DeviceMemory::of(device)->note_stream(); }

bool DeviceUploads::takes(const at::Tensor& to, const at::Tensor& from) {
  const bool is_in_order = to.scalar_type() == from.scalar_type() && to.sizes() == from.sizes() &&
                           to.strides() == from.strides() && from.is_non_overlapping_and_dense() &&
                           !from.is_conj() && !from.is_neg() && to.storage_offset() == 0;
  return is_in_order && !to.is_cpu() && from.is_cpu() && to.storage().nbytes() >= from.nbytes();
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
  if (!has_streams(device)) {
    for (const auto& [to, from] : tensors) {
      to.copy_(from);
    }
    return;
  }
  std::vector<DeviceUpload> pieces;
  for (const auto& [to, from] : tensors) {
    const ByteView elements{static_cast<const std::byte*>(from.data_ptr()), from.nbytes()};
    if (!elements.empty()) pieces.push_back({to.storage(), 0, elements});
  }
  if (!pieces.empty()) DeviceMemory::of(device)->upload(pieces);
}

DeviceWrites::DeviceWrites(std::vector<c10::Storage> memory) : memory_(std::move(memory)) {
  constexpr std::uint64_t kSmallBytes = std::uint64_t{256} << 10;
  struct Share {
    c10::Device device;
    std::uint64_t bytes = 0;
    std::size_t small = 0;
  };
  std::vector<Share> shares;
  for (const c10::Storage& one : memory_) {
    auto share = std::ranges::find(shares, one.device(), &Share::device);
    if (share == shares.end()) share = shares.insert(share, Share{one.device()});
    share->bytes += round_up<std::uint64_t>(one.nbytes(), kStagedAlignment);
    if (one.nbytes() <= kSmallBytes) ++share->small;
  }
  const torch::NoGradGuard no_grad;
  const auto most = std::max(1u, kMaxLanes / std::max(1u, static_cast<unsigned>(shares.size())));
  for (const Share& share : shares) {
    const bool has_small = share.small >= kWorthGathering;
    const auto device = DeviceMemory::of(share.device);
    devices_.emplace_back(share.device, device->lanes_to(share.bytes, has_small, most));
  }
  std::ranges::sort(memory_, {}, begin_of);
}

DeviceWrites::~DeviceWrites() = default;

const c10::Storage* DeviceWrites::find(const std::byte* address) const {
  const auto behind = std::ranges::upper_bound(memory_, address, {}, begin_of);
  if (behind == memory_.begin()) return nullptr;
  const c10::Storage& memory = *std::prev(behind);
  const auto offset = static_cast<std::uint64_t>(address - begin_of(memory));
  return offset < memory.nbytes() ? &memory : nullptr;
}

void DeviceWrites::write(const std::byte* to, ByteView bytes) {
  const c10::Storage& memory = *find(to);
  const auto offset = static_cast<std::uint64_t>(to - begin_of(memory));
  const c10::Device device = memory.device();
  const auto is_its = [&](const auto& lanes) { return lanes.first == device; };
  std::ranges::find_if(devices_, is_its)->second->write({memory, offset, bytes});
}

void DeviceWrites::finish() {
  for (const auto& [device, lanes] : devices_) {
    lanes->finish();
  }
}

}  // namespace cairn
