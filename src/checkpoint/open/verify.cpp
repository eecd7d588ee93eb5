#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "cairn/error.h"

#include "checkpoint/open/check_records.h"
#include "checkpoint/open/source.h"
#include "checkpoint/open/torch_checkpoint.h"
#include "core/printable.h"
#include "storage/place.h"

namespace cairn {
namespace {

using TensorsByOffset = std::unordered_map<std::uint64_t, std::vector<std::string>>;

const ByteSource& bytes_for(const TorchCheckpoint& checkpoint, const VerifyOptions& options) {
  return options.trust_memory ? checkpoint.file.source() : *checkpoint.source;
}

// Paths of the tensors in each record, by the record's offset; empty when the pickle cannot tell.
TensorsByOffset tensors_by_offset(const TorchCheckpoint& checkpoint) {
  TensorsByOffset tensors;
  try {
    const Value value = checkpoint.file.read();
    for (const auto& [path, tensor] : tensors_of(value)) {
      if (tensor->storage == nullptr || tensor->storage->source() == nullptr) continue;
      tensors[tensor->storage->source_offset()].push_back(path);
    }
  } catch (const Error&) {
    // The record is named all the same.
  }
  return tensors;
}

// The records to check, and the places for their bytes: all, or those that somebody wants.
struct RecordsToCheck {
  RecordsToCheck(const TorchCheckpoint& checkpoint, const VerifyOptions& options) {
    const std::vector<FileRecord>& all = checkpoint.file.records();
    if (options.how == Verify::kFull) {
      records = all;
      places = options.places;
      return;
    }
    for (std::size_t i = 0; i < options.places.size(); ++i) {
      if (options.places[i].empty()) continue;
      records.push_back(all[i]);
      places.push_back(options.places[i]);
    }
  }
  std::vector<FileRecord> records;
  std::vector<std::span<std::byte>> places;
};

void add_damaged_records(const TorchCheckpoint& checkpoint, const VerifyOptions& options,
                         VerifyReport& report) {
  const auto [records, places] = RecordsToCheck(checkpoint, options);
  const auto crcs =
      record_crcs(bytes_for(checkpoint, options), records, options.on_progress, places);
  std::optional<TensorsByOffset> tensors;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const FileRecord& record = records[i];
    if (crcs[i] == record.crc32) continue;
    if (!tensors) tensors = tensors_by_offset(checkpoint);
    const auto found = tensors->find(record.offset);
    report.damage.push_back(
        {.what = fmt::format("its CRC-32 is {:08x}, but {:08x} was written", crcs[i], record.crc32),
         .record = record.name,
         .tensors = found == tensors->end() ? std::vector<std::string>{} : found->second,
         .begin = record.offset,
         .end = record.offset + record.size});
  }
}

// Without a look at them.
void fill_places(const TorchCheckpoint& checkpoint, const VerifyOptions& options) {
  std::vector<ByteSource::Range> ranges;
  for (std::size_t i = 0; i < options.places.size(); ++i) {
    if (options.places[i].empty()) continue;
    ranges.push_back({checkpoint.file.records()[i].offset, options.places[i]});
  }
  bytes_for(checkpoint, options).read(ranges);
}

// What lies between the records.
void check_layout(const TorchCheckpoint& checkpoint, VerifyReport& report) {
  try {
    checkpoint.file.check_headers();
  } catch (const CorruptError& e) {
    report.damage.push_back({.what = without_path(e.what(), checkpoint.path),
                             .begin = e.offset(),
                             .end = e.offset() + 1});
    return;
  }
  // Those of another layout have only their CRCs, and so have other writers'.
  if (!checkpoint.manifest || checkpoint.manifest->layout != kManifestLayout) return;
  std::uint64_t offset = 0;
  if (checkpoint.file.has_canonical_layout(&offset)) return;
  report.damage.push_back({.what = "a byte between the records is not what was written",
                           .begin = offset,
                           .end = offset + 1});
}

}  // namespace

VerifyReport verify_opened(const TorchCheckpoint& checkpoint, const VerifyOptions& options) {
  VerifyReport report;
  report.records = checkpoint.file.records().size();
  report.bytes = checkpoint.source->size();
  report.has_manifest = checkpoint.manifest.has_value();
  report.has_checksums = checkpoint.file.has_checksums();
  const bool is_full = options.how == Verify::kFull;
  if (options.how != Verify::kQuick && report.has_checksums) {
    add_damaged_records(checkpoint, options, report);
  } else if (!options.places.empty()) {
    fill_places(checkpoint, options);
  }
  if (checkpoint.manifest) {
    report.info = checkpoint.manifest->info;
    const std::string difference =
        compare_with_records(*checkpoint.manifest, checkpoint.file.records());
    if (!difference.empty()) {
      report.damage.push_back({.what = difference, .begin = 0, .end = report.bytes});
    }
  }
  if (is_full) check_layout(checkpoint, report);
  return report;
}

VerifyReport verify(const std::string& path, Verify how,
                    const std::shared_ptr<ObjectStore>& store) {
  return verify_path(path, how, {.store = store});
}

namespace {

// Of a file of `bytes` that could not even be opened.
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

VerifyReport verify_path(const std::string& path, Verify how, const OpenOptions& options) {
  try {
    return open_source(path, options)->verify(how);
  } catch (const CorruptError& e) {
    const auto info = store_of(path, options.store)->stat(path);
    return report_of(e, path, info ? info->size : 0);
  }
}

VerifyReport verify_file(std::shared_ptr<const ByteSource> file, const std::string& path,
                         Verify how, const OpenOptions& options) {
  const std::uint64_t bytes = file->size();
  try {
    return open_file_source(std::move(file), path, options)->verify(how);
  } catch (const CorruptError& e) {
    return report_of(e, path, bytes);
  }
}

std::string Damage::describe() const {
  std::string text = record.empty() ? "" : "record " + printable_line(record);
  constexpr std::size_t kMostNames = 3;
  for (std::size_t i = 0; i < std::min(tensors.size(), kMostNames); ++i) {
    text += (i == 0 ? " (tensor " : ", ") + printable_line(tensors[i]);
  }
  if (tensors.size() > kMostNames) {
    text += fmt::format(" and {} more", tensors.size() - kMostNames);
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
  return fmt::format("ok: {} records, {} bytes; {}", records, bytes, checked);
}

}  // namespace cairn
