#include "checkpoint/open/verify/verified_source.h"

#include <algorithm>
#include <utility>

#include "checkpoint/open/verify/check_whole.h"
#include "io/files/file_source.h"
#include "io/memory/mapped_file.h"

namespace cairn {
namespace {

// Returns the places in the order that a CheckedRead needs; none if two of them overlap.
std::vector<ByteSource::Range> places_of(std::span<const ByteSource::Range> ranges) {
  std::vector<ByteSource::Range> places;
  places.reserve(ranges.size());
  for (const ByteSource::Range& range : ranges) {
    if (!range.into.empty()) places.push_back(range);
  }
  std::ranges::stable_sort(places, {}, &ByteSource::Range::offset);
  const auto overlap = [](const ByteSource::Range& a, const ByteSource::Range& b) {
    return a.offset + a.into.size() > b.offset;
  };
  if (std::ranges::adjacent_find(places, overlap) != places.end()) places.clear();
  return places;
}

// The first entry that ends after `offset`.
auto find_from(auto& entries, std::uint64_t offset) {
  return std::partition_point(entries.begin(), entries.end(), [&](const auto& entry) {
    return entry.offset + entry.size <= offset;
  });
}

}  // namespace

VerifiedSource::VerifiedSource(std::shared_ptr<const ByteSource> under, Check check)
    : under_(std::move(under)), check_(std::move(check)) {}

void VerifiedSource::add(const std::vector<FileRecord>& records) const {
  std::vector<Entry> added;
  added.reserve(records.size());
  for (const FileRecord& record : records) {
    if (record.size == 0) continue;
    added.push_back({.offset = record.offset, .size = record.size, .crc32 = record.crc32});
  }
  std::ranges::sort(added, {}, &Entry::offset);
  const std::lock_guard lock(mutex_);
  std::erase_if(added, [&](const Entry& entry) {
    const auto known = find_from(entries_, entry.offset);
    return known != entries_.end() && known->offset <= entry.offset;
  });
  for (Entry& entry : added) {
    entry.state = is_whole_ ? State::kGood : State::kUnknown;
  }
  if (!is_whole_) left_ += added.size();
  const auto middle = static_cast<std::ptrdiff_t>(entries_.size());
  entries_.insert(entries_.end(), added.begin(), added.end());
  std::ranges::inplace_merge(entries_, entries_.begin() + middle, {}, &Entry::offset);
}

void VerifiedSource::check(const CheckedRead& read, const std::vector<FileRecord>& records,
                           VerifyReport& report) const {
  const std::size_t before = report.damage.size();
  check_(read, records, report);
  note(records, std::span(report.damage).subspan(before));
}

void VerifiedSource::set_good() const {
  const std::lock_guard lock(mutex_);
  is_whole_ = true;
  for (Entry& entry : entries_) {
    set(entry, State::kGood);
  }
  checked_.notify_all();
}

void VerifiedSource::read(std::span<const Range> ranges) const {
  if (is_good()) return under_->read(ranges);
  std::vector<Extent> wanted;
  wanted.reserve(ranges.size());
  for (const Range& range : ranges) {
    check_range(range.offset, range.into.size());
    wanted.push_back({range.offset, range.into.size()});
  }
  if (!verify(wanted, places_of(ranges))) under_->read(ranges);
}

void VerifiedSource::read_each(std::span<const Part> parts, const Look& look) const {
  if (!is_good()) {
    std::vector<Extent> wanted;
    wanted.reserve(parts.size());
    for (const Part& part : parts) {
      check_range(part.offset, part.size);
      wanted.push_back({part.offset, part.size});
    }
    verify(wanted, {});
  }
  under_->read_each(parts, look);
}

// Checks bytes that are in memory or mapped without copying them.
SharedBytes VerifiedSource::view(std::uint64_t offset, std::uint64_t size) const {
  check_range(offset, size);
  if (is_good()) return under_->view(offset, size);
  const bool is_mapped = is_file_source(*under_) && reads_are_guarded();
  if (!under_->in_memory() && !is_mapped) return ByteSource::view(offset, size);
  const Extent wanted{offset, size};
  verify({&wanted, 1}, {});
  return under_->view(offset, size);
}

// Step 2. Returns whether the places, if there are any, were filled. The places are not filled if
// nothing was left to verify. A waiting thread has claimed no record, so two threads never wait for
// each other.
bool VerifiedSource::verify(std::span<const Extent> wanted,
                            const std::vector<Range>& places) const {
  bool is_filled = false;
  for (;;) {
    const std::vector<FileRecord> claimed = claim(wanted);
    if (claimed.empty()) return is_filled;
    try {
      CheckedRead read{.file = *under_};
      if (!is_filled) read.places = places;
      VerifyReport report;
      check(read, claimed, report);
    } catch (...) {
      give_up(claimed);
      throw;
    }
    is_filled = !places.empty();
  }
}

// Returns the records that this thread has to verify. If there are none, but other threads are
// verifying wanted records, waits for these threads. Empty if all wanted records are good.
std::vector<FileRecord> VerifiedSource::claim(std::span<const Extent> wanted) const {
  std::unique_lock lock(mutex_);
  for (;;) {
    std::vector<FileRecord> claimed;
    bool is_being_checked = false;
    for (const Extent& extent : wanted) {
      const std::uint64_t end = extent.offset + extent.size;
      for (auto at = find_from(entries_, extent.offset); at != entries_.end() && at->offset < end;
           ++at) {
        if (at->state == State::kDamaged && claimed.empty()) refuse(*at);
        is_being_checked = is_being_checked || at->state == State::kChecking;
        if (at->state != State::kUnknown) continue;
        claimed.push_back({.name = {}, .offset = at->offset, .size = at->size, .crc32 = at->crc32});
      }
    }
    std::ranges::sort(claimed, {}, &FileRecord::offset);
    const auto is_same = [](const FileRecord& a, const FileRecord& b) {  // extents may overlap
      return a.offset == b.offset;
    };
    claimed.erase(std::unique(claimed.begin(), claimed.end(), is_same), claimed.end());
    for (const FileRecord& record : claimed) {  // nothing may throw from here on
      find_from(entries_, record.offset)->state = State::kChecking;
    }
    if (!claimed.empty() || !is_being_checked) return claimed;
    checked_.wait(lock);
  }
}

void VerifiedSource::give_up(const std::vector<FileRecord>& claimed) const {
  const std::lock_guard lock(mutex_);
  for (const FileRecord& record : claimed) {
    const auto entry = find_from(entries_, record.offset);
    if (entry != entries_.end() && entry->state == State::kChecking) entry->state = State::kUnknown;
  }
  checked_.notify_all();
}

void VerifiedSource::note(const std::vector<FileRecord>& records,
                          std::span<const Damage> damage) const {
  const std::lock_guard lock(mutex_);
  // this comes first, because it may fail to get memory: in that case no damaged record becomes
  // good
  for (const Damage& one : damage) {
    damage_.insert_or_assign(one.begin, one);
  }
  auto at = entries_.begin();
  for (const FileRecord& record : records) {
    if (at == entries_.end() || at->offset != record.offset)
      at = find_from(entries_, record.offset);
    if (at == entries_.end() || at->offset != record.offset) continue;
    set(*at++, State::kGood);
  }
  for (const Damage& one : damage) {
    const auto entry = find_from(entries_, one.begin);
    if (entry == entries_.end() || entry->offset != one.begin) continue;
    set(*entry, State::kDamaged);
  }
  checked_.notify_all();
}

void VerifiedSource::set(Entry& entry, State state) const {
  if (state == State::kGood && entry.state != State::kGood) --left_;
  if (state != State::kGood && entry.state == State::kGood) ++left_;
  entry.state = state;
}

void VerifiedSource::refuse(const Entry& entry) const {
  VerifyReport report;
  report.damage.push_back(damage_.at(entry.offset));
  check_whole(report, name());
}

}  // namespace cairn
