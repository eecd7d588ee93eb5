#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <new>
#include <optional>
#include <utility>

#include "cairn/error.h"

#include "checkpoint/open/formats/torch_checkpoint.h"
#include "checkpoint/open/noting_store.h"
#include "checkpoint/open/source.h"
#include "checkpoint/open/verify/check_records.h"
#include "core/out_of_memory.h"
#include "core/text/printable.h"
#include "io/bytes/windows.h"
#include "storage/place.h"

namespace cairn {
namespace {

// The bytes between the records: headers and the directory. These bytes are read in the same pass
// as the records and kept, so that they need no read of their own. They are not kept if there are
// far more of them than a writer of such files makes.
class BytesBetween {
 public:
  explicit BytesBetween(const TorchCheckpoint& checkpoint) : windows_(checkpoint.source) {
    const std::vector<FileRecord>& records = checkpoint.file.records();
    constexpr std::uint64_t kFewBytes = std::uint64_t{4} << 20;
    constexpr std::uint64_t kMaxRecordBytes = 1024;
    constexpr std::uint64_t kMaxBytes = std::uint64_t{64} << 20;
    std::uint64_t bytes = checkpoint.source->size();
    for (const FileRecord& record : records) {
      bytes -= std::min(bytes, record.size);
    }
    const bool is_much = bytes > std::min(kFewBytes + kMaxRecordBytes * records.size(), kMaxBytes);
    if (is_much || checkpoint.source->in_memory()) return;
    bytes_->resize(bytes);
    std::span<std::byte> left = *bytes_;
    std::uint64_t at = 0;
    const auto add = [&](std::uint64_t end) {
      if (end <= at || end - at > left.size()) return;
      ranges_.push_back({at, left.first(end - at)});
      left = left.subspan(end - at);
    };
    for (const FileRecord& record : records) {
      add(record.offset);
      at = record.offset + record.size;
    }
    add(checkpoint.source->size());
  }

  // Returns `places` with the ranges to keep added, in order. A range that overlaps a place is not
  // added. Its bytes are checked in that place, if the place has all of them and is host memory.
  std::vector<ByteSource::Range> with(std::vector<ByteSource::Range> places, const PutBytes& put) {
    const auto end_of = [](const ByteSource::Range& range) {
      return range.offset + range.into.size();
    };
    kept_ = std::move(ranges_);
    auto place = places.begin();
    std::erase_if(kept_, [&](const ByteSource::Range& range) {
      while (place != places.end() && end_of(*place) <= range.offset) {
        ++place;
      }
      if (place == places.end() || place->offset >= end_of(range)) return false;
      const bool has_all = place->offset <= range.offset && end_of(*place) >= end_of(range);
      if (has_all && !put.takes(place->into)) windows_.add(place->offset, {place->into, nullptr});
      return true;
    });
    std::vector<ByteSource::Range> all;
    all.reserve(places.size() + kept_.size());
    std::merge(
        places.begin(), places.end(), kept_.begin(), kept_.end(), std::back_inserter(all),
        [](const ByteSource::Range& a, const ByteSource::Range& b) { return a.offset < b.offset; });
    return all;
  }

  // Returns the file. Call it after the ranges of with() were read: these ranges then cost no
  // further read.
  const ByteSource& bytes() {
    for (const ByteSource::Range& range : kept_) {
      windows_.add(range.offset, {range.into, bytes_});
    }
    return windows_;
  }

 private:
  Windows windows_;
  std::shared_ptr<std::vector<std::byte>> bytes_ = std::make_shared<std::vector<std::byte>>();
  std::vector<ByteSource::Range> ranges_;  // the bytes between the records
  std::vector<ByteSource::Range> kept_;    // the ranges that with() added
};

void check_layout(const TorchCheckpoint& checkpoint, const ByteSource& bytes,
                  VerifyReport& report) {
  // Files with another layout, or from another writer, have only their CRCs.
  const bool is_known = checkpoint.manifest && checkpoint.manifest->layout == kManifestLayout;
  std::uint64_t offset = 0;
  if (is_known && checkpoint.file.has_canonical_layout(&offset, &bytes)) return;
  try {
    checkpoint.file.check_headers(&bytes);
  } catch (const CorruptError& e) {
    report.damage.push_back({.what = without_path(e.what(), checkpoint.path),
                             .begin = e.offset(),
                             .end = e.offset() + 1});
    return;
  }
  if (!is_known) return;
  report.damage.push_back({.what = "a byte between the records is not what was written",
                           .begin = offset,
                           .end = offset + 1});
}

}  // namespace

VerifyReport verify_opened(const TorchCheckpoint& checkpoint, Verify how, PendingReads& reads,
                           const std::function<void(std::uint64_t)>& on_progress) {
  if (how == Verify::kWhatIsRead && reads.has_storages_to_make()) how = Verify::kFull;
  VerifyReport report;
  report.records = checkpoint.file.records().size();
  report.bytes = checkpoint.source->size();
  report.has_manifest = checkpoint.manifest.has_value();
  report.has_checksums = checkpoint.file.has_checksums();
  const std::vector<FileRecord>& records = checkpoint.file.checked_records();
  if (report.has_checksums) report.unchecked = report.records - records.size();
  const ByteSource& file = reads.empty() ? *checkpoint.source : checkpoint.file.source();
  CheckedRead read{.file = file,
                   .on_progress =
                       [&](std::uint64_t bytes) {
                         reads.check_ended();
                         if (on_progress) on_progress(bytes);
                       },
                   .put = reads.put()};
  const VerifiedSource& tensors = *checkpoint.tensors;
  std::optional<BytesBetween> between;
  if (report.has_checksums && how == Verify::kFull) {
    read.places = reads.take(tensors);
    read.places = between.emplace(checkpoint).with(std::move(read.places), read.put);
    tensors.check(read, records, report);
  } else if (report.has_checksums && how == Verify::kWhatIsRead) {
    read.places = reads.take(tensors);
    tensors.check(read, wanted(records, read.places), report);
  }
  if (checkpoint.manifest) report.info = checkpoint.manifest->info;
  if (const std::string& difference = checkpoint.difference(); !difference.empty()) {
    report.damage.push_back({.what = difference, .begin = 0, .end = report.bytes});
  }
  if (how == Verify::kFull) {
    check_layout(checkpoint, between ? between->bytes() : *checkpoint.source, report);
  }
  return report;
}

VerifyReport verify(const std::string& path, Verify how,
                    const std::shared_ptr<ObjectStore>& store) try {
  return verify_path(path, how, {.store = store}).report;
} catch (const std::bad_alloc&) {
  throw_out_of_memory("verifying a checkpoint");
}

namespace {

// Returns the report on a file of `bytes` bytes that could not even be opened.
VerifyReport report_of(const CorruptError& error, const std::string& path, std::uint64_t bytes) {
  VerifyReport report;
  report.bytes = bytes;
  const bool knows_where = error.offset() != CorruptError::kNoOffset;
  report.damage.push_back({.what = without_path(error.what(), path),
                           .begin = knows_where ? error.offset() : 0,
                           .end = report.bytes});
  return report;
}

}  // namespace

VerifiedPath verify_path(const std::string& path, Verify how, const OpenOptions& options) {
  const std::string shown = options.store ? path : shown_place(path);
  const auto store = std::make_shared<NotingStore>(store_of(path, options.store));
  OpenOptions noting = options;
  noting.store = store;
  VerifiedPath verified;
  try {
    verified.report = open_source(shown, noting)->verify(how);
  } catch (const CorruptError& e) {
    const auto info = store->stat(shown, /*follow=*/true);
    verified.report = report_of(e, shown, info ? info->size : 0);
  }
  verified.not_read = store->unread();
  return verified;
}

std::string Damage::describe() const {
  std::string text = record.empty() ? "" : "record " + printable_line(record);
  constexpr std::size_t kMaxNames = 3;
  for (std::size_t i = 0; i < std::min(tensors.size(), kMaxNames); ++i) {
    text += (i == 0 ? " (tensor " : ", ") + printable_line(tensors[i]);
  }
  if (tensors.size() > kMaxNames) {
    text += fmt::format(" and {} more", tensors.size() - kMaxNames);
  }
  if (!tensors.empty()) text += ")";
  if (!text.empty()) text += ", ";
  return text + fmt::format("bytes {} to {}: {}", begin, end, printable_line(what));
}

std::string VerifyReport::summary() const {
  if (!ok()) {
    std::string text = "damaged: " + damage.front().describe();
    if (damage.size() > 1) text += fmt::format("; and {} more places", damage.size() - 1);
    return text;
  }
  const char* checked = !has_checksums ? "no checksums: only its structure was checked"
                        : has_manifest ? "every byte accounted for"
                                       : "all records match their CRC-32";
  const std::string lacking =
      unchecked > 0 ? fmt::format(", {} of which have none", unchecked) : std::string();
  return fmt::format("ok: {} records, {} bytes; {}{}", records, bytes, checked, lacking);
}

}  // namespace cairn
