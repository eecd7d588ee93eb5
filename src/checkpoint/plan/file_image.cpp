#include "checkpoint/plan/file_image.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <unordered_map>

#include "cairn/error.h"

#include "core/hash/crc32.h"
#include "format/stream_plan.h"
#include "io/bytes/block_sink.h"

namespace cairn {
namespace {

constexpr std::size_t kCheckedBytes = std::size_t{1} << 20;

std::size_t prefix_size() { return TorchFileWriteOptions{}.prefix.size() + 1; }

// Fills the gaps of an image and hands each block to the sink as soon as the block is complete.
class ImageWriter {
 public:
  ImageWriter(const TorchPlan& plan, const std::shared_ptr<PageMemory>& memory,
              PositionalSink& sink)
      : plan_(plan),
        memory_(memory),
        sink_(sink),
        block_bytes_(block_bytes(plan.tail_begin())),
        checks_(plan.parts().size()) {}

  void run() {
    std::string text;
    for (std::size_t i = 0; i < plan_.parts().size(); ++i) {
      set_between(plan_, i, checks_, text);
      std::memcpy(memory_->data() + plan_.between_begin(i), text.data(), text.size());
      checks_[i] = check(plan_.parts()[i]);
    }
    hand_over(plan_.tail_begin() - handed_over_);
    const auto tail = std::make_shared<std::string>();
    set_between(plan_, plan_.parts().size(), checks_, *tail);
    sink_.write(handed_over_, {as_bytes(*tail), tail});
  }

 private:
  std::uint32_t check(const CheckpointPlan::Part& part) {
    std::uint32_t crc = 0;
    for (std::uint64_t done = 0; done < part.size;) {
      const std::uint64_t at = part.offset + done;
      const std::uint64_t size = std::min<std::uint64_t>(part.size - done, kCheckedBytes);
      crc = crc32({memory_->data() + at, static_cast<std::size_t>(size)}, crc);
      done += size;
      while (at + size - handed_over_ >= block_bytes_) {
        hand_over(block_bytes_);
      }
    }
    return crc;
  }

  void hand_over(std::uint64_t size) {
    const std::uint64_t begin = handed_over_;
    handed_over_ += size;
    if (size > 0) {
      sink_.write(begin, {{memory_->data() + begin, static_cast<std::size_t>(size)}, memory_});
    }
  }

  const TorchPlan& plan_;
  const std::shared_ptr<PageMemory>& memory_;
  PositionalSink& sink_;
  const std::size_t block_bytes_;
  std::vector<std::uint64_t> checks_;
  std::uint64_t handed_over_ = 0;
};

}  // namespace

FileImage::FileImage(Value value, Snapshotter& snapshotter, std::shared_ptr<Layout> layout)
    : value_(std::move(value)), layout_(std::move(layout)) {
  // known_sizes stays 0 if StorageList throws: the sizes in the layout are valid only after a
  // complete walk.
  const std::size_t known_sizes = std::exchange(layout_->known_sizes, 0);
  const StorageList list(value_, &layout_->known);
  storages_.assign(list.storages().begin(), list.storages().end());
  const bool is_same = note_sizes(list, known_sizes);
  if (!is_same || layout_->pickle_bytes == 0) {
    layout_->offsets_for = 0;
    encode();
  }
  place();
  memory_ = snapshotter.take(storages_, offsets_, layout_->end, layout_->known.bytes);
}

// Returns whether the storages have the same sizes as last time. A Storage does not change, so the
// first `known_sizes` storages, which are the same objects as before, need not be asked.
bool FileImage::note_sizes(const StorageList& list, std::size_t known_sizes) {
  std::vector<std::uint64_t>& sizes = layout_->sizes;
  const std::size_t unchanged = std::min(list.unchanged_count(), known_sizes);
  bool is_same = sizes.size() == storages_.size();
  sizes.resize(storages_.size());
  for (std::size_t i = unchanged; i < storages_.size(); ++i) {
    const std::uint64_t size = storages_[i] == nullptr ? 0 : storages_[i]->size();
    is_same = is_same && sizes[i] == size;
    sizes[i] = size;
  }
  layout_->known_sizes = list.known_count();
  return is_same;
}

void FileImage::place() {
  // read once, because plan() of another image may change the field meanwhile
  const std::uint64_t pickle_bytes = layout_->pickle_bytes;
  if (layout_->offsets_for != pickle_bytes || pickle_bytes == 0) {
    layout_->offsets_for = 0;
    layout_->offsets.clear();
    layout_->offsets.reserve(layout_->sizes.size());
    StoragePlaces places(prefix_size(), pickle_bytes);
    places.reserve(layout_->sizes.size());
    for (const std::uint64_t size : layout_->sizes) {
      layout_->offsets.push_back(places.add(size));
    }
    layout_->end = places.end();
    layout_->offsets_for = pickle_bytes;
  }
  offsets_ = layout_->offsets;
}

// A value that cannot be encoded is an error of the save, so plan() reports it.
void FileImage::encode() {
  layout_->pickle_bytes = 0;
  try {
    encoded_ = pickle::encode(value_, layout_->encoded);
    layout_->pickle_bytes = encoded_->data_pkl.size() + encoded_->room;
  } catch (const Error&) {
    encoded_.reset();
  }
}

std::function<SharedBytes(const Storage& storage)> FileImage::copies() const {
  // The first call of the returned function makes the table, so that training need not wait for the
  // table.
  return [storages = storages_, offsets = offsets_, memory = memory_,
          offset_of =
              std::unordered_map<const Storage*, std::uint64_t>()](const Storage& storage) mutable {
    if (offset_of.empty()) {
      offset_of.reserve(storages.size());
      for (std::size_t i = 0; i < storages.size(); ++i)
        offset_of.emplace(storages[i], offsets[i]);
    }
    const auto copy = offset_of.find(&storage);
    if (copy == offset_of.end()) return SharedBytes();
    return SharedBytes{{memory->data() + copy->second, static_cast<std::size_t>(storage.size())},
                       memory};
  };
}

TorchPlan FileImage::plan(const TorchFileWriteOptions& options, bool as_image) {
  TorchPlan plan(encoded_ ? std::move(*encoded_) : pickle::encode(value_, layout_->encoded),
                 options, TorchPlan::Room::kToGrow);
  layout_->pickle_bytes = plan.pickle_bytes();
  is_image_ = as_image && is_laid_out_as(plan);
  if (!is_image_) bind(plan);
  for (std::size_t i = 0; is_image_ && i < storages_.size(); ++i) {
    plan.set_storage(i, nullptr);  // releases the live storage
  }
  encoded_.reset();
  value_ = {};
  return plan;
}

bool FileImage::is_laid_out_as(const TorchPlan& plan) const {
  const auto is_here = [&](const CheckpointPlan::Part& part, std::size_t i) {
    const bool is_same =
        part.storage.get() == storages_[i] || (storages_[i] == nullptr && part.size == 0);
    return is_same && part.offset == offsets_[i];
  };
  if (plan.parts().size() != storages_.size()) return false;
  for (std::size_t i = 0; i < storages_.size(); ++i) {
    if (!is_here(plan.parts()[i], i)) return false;
  }
  return true;
}

void FileImage::bind(TorchPlan& plan) const {
  const auto find = copies();
  for (std::size_t i = 0; i < plan.parts().size(); ++i) {
    const CheckpointPlan::Part& part = plan.parts()[i];
    const SharedBytes copy =
        part.storage == nullptr ? SharedBytes{{}, memory_} : find(*part.storage);
    if (copy.owner == nullptr) continue;  // the storage was not copied, because it does not change
    plan.set_storage(i, storage_of(copy.part(0, static_cast<std::size_t>(part.size))));
  }
}

void FileImage::write(const TorchPlan& plan, PositionalSink& sink) const {
  ImageWriter(plan, memory_, sink).run();
}

}  // namespace cairn
