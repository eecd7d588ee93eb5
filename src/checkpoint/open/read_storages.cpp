#include "checkpoint/open/read_storages.h"

#include <algorithm>
#include <utility>

#include "cairn/error.h"

#include "checkpoint/open/verify/verified_source.h"
#include "io/threads/parallel.h"
#include "value/tensor/assembled_storage.h"

namespace cairn {
namespace {

std::uint64_t end_of(const ByteSource::Range& range) { return range.offset + range.into.size(); }

// Fills read.into: copies the bytes of a storage that is in memory, or lets the storage load them.
void make_storage(const StorageRead& read) {
  const std::optional<SharedBytes> bytes = read.storage->try_view();
  if (!bytes) return read.storage->read_into(0, read.into);
  std::copy(bytes->view.begin(), bytes->view.end(), read.into.begin());
  bytes->release(bytes->view);
}

void copy_range(const ByteSource& source, const ByteSource::Range& range) {
  const SharedBytes bytes = source.view(range.offset, range.into.size());
  std::copy(bytes.view.begin(), bytes.view.end(), range.into.begin());
  bytes.release(bytes.view);
}

void fill(const ByteSource& source, const std::vector<ByteSource::Range>& ranges) {
  if (!source.in_memory()) return source.read(ranges);
  std::uint64_t bytes = 0;
  for (const ByteSource::Range& range : ranges) {
    bytes += range.into.size();
  }
  for_each_parallel(
      ranges.size(), [&](std::size_t i) { copy_range(source, ranges[i]); }, bytes);
}

}  // namespace

PendingReads::PendingReads(const std::vector<StorageRead>& reads, const std::atomic<bool>* ended,
                           PutBytes put)
    : is_empty_(reads.empty()), ended_(ended), put_(std::move(put)) {
  std::vector<SourceRange> ranges;
  ranges.reserve(reads.size());
  for (const StorageRead& read : reads) {
    if (read.into.empty()) continue;
    const Storage& storage = *read.storage;
    if (const ByteSource* source = storage.source()) {
      ranges.push_back({source, {storage.source_offset(), read.into}});
      continue;
    }
    const auto* assembled = dynamic_cast<const AssembledStorage*>(&storage);
    if (assembled == nullptr || !assembled->add_ranges(read.into, ranges)) made_.push_back(read);
  }
  for (std::size_t i = 0; i < ranges.size();) {
    const ByteSource* const source = ranges[i].source;
    std::vector<ByteSource::Range>& wanted = by_source_[source];
    if (source == ranges.back().source && i == 0) wanted.reserve(ranges.size());
    for (; i < ranges.size() && ranges[i].source == source; ++i) {
      wanted.push_back(ranges[i].range);
    }
  }
  for (auto& [source, wanted] : by_source_) {
    add(*source, wanted);
  }
}

// Sorts the ranges (most often they are sorted already), and turns bytes that are wanted twice into
// copies. If a range begins before the end of the kept ranges, the kept ranges cover it without a
// gap up to that end: the requested range with that end began no later, and all of its bytes are
// kept.
void PendingReads::add(const ByteSource& source, std::vector<ByteSource::Range>& ranges) {
  const auto reaches_into = [](const ByteSource::Range& a, const ByteSource::Range& b) {
    return end_of(a) > b.offset;
  };
  if (std::ranges::adjacent_find(ranges, reaches_into) == ranges.end()) return;
  std::stable_sort(
      ranges.begin(), ranges.end(),
      [](const ByteSource::Range& a, const ByteSource::Range& b) { return a.offset < b.offset; });
  std::vector<ByteSource::Range> kept;
  kept.reserve(ranges.size());
  for (const ByteSource::Range& range : ranges) {
    std::uint64_t at = range.offset;
    const std::uint64_t known = kept.empty() ? at : std::max(at, end_of(kept.back()));
    auto from = std::upper_bound(kept.begin(), kept.end(), at,
                                 [](std::uint64_t offset, const ByteSource::Range& before) {
                                   return offset < before.offset;
                                 });
    for (const std::uint64_t stop = std::min(known, end_of(range)); at < stop; ++from) {
      const ByteSource::Range& before = *std::prev(from);
      const std::uint64_t size = std::min(stop, end_of(before)) - at;
      const std::span<std::byte> into = range.into.subspan(at - range.offset, size);
      if (put_.takes(range.into) || put_.takes(before.into)) {
        read_again_[&source].push_back({at, into});
      } else {
        copies_.push_back({before.into.subspan(at - before.offset, size), into.data()});
      }
      at += size;
    }
    if (at < end_of(range)) kept.push_back({at, range.into.subspan(at - range.offset)});
  }
  ranges = std::move(kept);
}

std::vector<ByteSource::Range> PendingReads::take(const ByteSource& source) {
  const auto found = by_source_.find(&source);
  if (found == by_source_.end()) return {};
  std::vector<ByteSource::Range> ranges = std::move(found->second);
  by_source_.erase(found);
  return ranges;
}

void PendingReads::check_ended() const {
  if (ended_ != nullptr && *ended_)
    throw CancelledError("the read was cancelled: its result is not needed any more");
}

void PendingReads::put_ranges(const ByteSource& source,
                              const std::vector<ByteSource::Range>& ranges) const {
  std::vector<ByteSource::Part> parts;
  parts.reserve(ranges.size());
  for (const ByteSource::Range& range : ranges) {
    const bool is_memory = !put_.takes(range.into);
    parts.push_back(
        {range.offset, range.into.size(), is_memory ? range.into : range.into.first(0)});
  }
  source.read_each(parts, [&](std::size_t i, std::uint64_t begin, ByteView bytes) {
    if (parts[i].into.empty()) put_.put(ranges[i].into.subspan(begin, bytes.size()), bytes);
  });
}

void PendingReads::make(const StorageRead& read) const {
  if (!put_.takes(read.into)) return make_storage(read);
  const SharedBytes bytes = read.storage->bytes();
  put_.put(read.into, bytes.view);
}

void PendingReads::finish(Access access) {
  const auto bytes_of = [&](const ByteSource& source) -> const ByteSource& {
    return access == Access::kRaw ? source.unverified() : source;
  };
  for (const auto& [source, ranges] : by_source_) {
    put_ ? put_ranges(bytes_of(*source), ranges) : fill(bytes_of(*source), ranges);
  }
  by_source_.clear();
  for (const auto& [source, ranges] : read_again_) {
    put_ranges(bytes_of(*source), ranges);
  }
  read_again_.clear();
  std::uint64_t bytes = 0;
  for (const StorageRead& read : made_) {
    bytes += read.into.size();
  }
  for_each_parallel(
      made_.size(), [&](std::size_t i) { make(made_[i]); }, bytes);
  made_.clear();
  for (const Copy& copy : copies_) {
    std::copy(copy.from.begin(), copy.from.end(), copy.to);
  }
  copies_.clear();
}

void read_storages(const std::vector<StorageRead>& reads) {
  PendingReads pending(reads);
  pending.finish();
}

}  // namespace cairn
