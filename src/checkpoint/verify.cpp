#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <unordered_map>

#include "cairn/error.h"

#include "checkpoint/open_checkpoint.h"
#include "checkpoint/source.h"

namespace cairn {
namespace {

// Below this, starting a second thread costs more than it saves.
constexpr std::uint64_t kBytesWorthASecondThread = std::uint64_t{32} << 20;

// Whether each record matches its CRC-32. Large files are checked by two threads.
std::vector<char> check_all_crcs(const TorchFile& file, std::uint64_t bytes) {
  const std::vector<FileRecord>& records = file.records();
  std::vector<char> matches(records.size());
  std::atomic<std::size_t> next = 0;
  const auto check_some = [&] {
    for (std::size_t i = next++; i < records.size(); i = next++) {
      matches[i] = static_cast<char>(file.matches_crc(records[i]));
    }
  };
  std::jthread second;
  if (bytes >= kBytesWorthASecondThread) {
    try {
      second = std::jthread(check_some);
    } catch (const std::system_error&) {
      // One thread does it as well.
    }
  }
  check_some();
  if (second.joinable()) second.join();
  return matches;
}

// Paths of the tensors in each record, by the record's offset; empty when the pickle cannot tell.
std::unordered_map<std::uint64_t, std::vector<std::string>> tensors_by_offset(
    const OpenCheckpoint& checkpoint) {
  std::unordered_map<std::uint64_t, std::vector<std::string>> tensors;
  try {
    const Value value = checkpoint.file.read();
    for (const auto& [path, tensor] : tensors_of(value)) {
      if (tensor->storage == nullptr) continue;
      const std::byte* data = tensor->storage->bytes().view.data();
      tensors[static_cast<std::uint64_t>(data - checkpoint.bytes.view.data())].push_back(path);
    }
  } catch (const Error&) {
    // The record is named all the same.
  }
  return tensors;
}

void add_damaged_records(const OpenCheckpoint& checkpoint, const std::vector<char>& matches,
                         VerifyReport& report) {
  if (std::all_of(matches.begin(), matches.end(), [](char match) { return match != 0; })) return;
  const auto tensors = tensors_by_offset(checkpoint);
  for (std::size_t i = 0; i < matches.size(); ++i) {
    if (matches[i] != 0) continue;
    const FileRecord& record = checkpoint.file.records()[i];
    const auto found = tensors.find(record.offset);
    report.damage.push_back(
        {.what =
             fmt::format("its bytes do not have the CRC-32 {:08x} that was written", record.crc32),
         .record = record.name,
         .tensors = found == tensors.end() ? std::vector<std::string>{} : found->second,
         .begin = record.offset,
         .end = record.offset + record.size});
  }
}

void check_layout(const OpenCheckpoint& checkpoint, VerifyReport& report) {
  if (checkpoint.manifest->layout != kManifestLayout) return;  // another version's; CRCs remain
  std::uint64_t offset = 0;
  if (checkpoint.file.has_canonical_layout(&offset)) return;
  report.damage.push_back({.what = "a byte between the records is not what was written",
                           .begin = offset,
                           .end = offset + 1});
}

std::string describe(const Damage& damage) {
  std::string text = damage.record.empty() ? "" : "record " + damage.record;
  constexpr std::size_t kMostNames = 3;
  for (std::size_t i = 0; i < std::min(damage.tensors.size(), kMostNames); ++i) {
    text += (i == 0 ? " (tensor " : ", ") + damage.tensors[i];
  }
  if (damage.tensors.size() > kMostNames) {
    text += fmt::format(" and {} more", damage.tensors.size() - kMostNames);
  }
  if (!damage.tensors.empty()) text += ")";
  if (!text.empty()) text += ", ";
  return text + fmt::format("bytes {} to {}: {}", damage.begin, damage.end, damage.what);
}

}  // namespace

VerifyReport verify_opened(const OpenCheckpoint& checkpoint, Verify how) {
  VerifyReport report;
  report.records = checkpoint.file.records().size();
  report.bytes = checkpoint.bytes.view.size();
  report.has_manifest = checkpoint.manifest.has_value();
  report.has_checksums = checkpoint.file.has_checksums();
  if (how == Verify::kFull && report.has_checksums) {
    add_damaged_records(checkpoint, check_all_crcs(checkpoint.file, report.bytes), report);
  }
  if (!checkpoint.manifest) return report;
  report.info = checkpoint.manifest->info;
  const std::string difference =
      compare_with_records(*checkpoint.manifest, checkpoint.file.records());
  if (!difference.empty()) {
    report.damage.push_back({.what = difference, .begin = 0, .end = report.bytes});
  }
  if (how == Verify::kFull) check_layout(checkpoint, report);
  return report;
}

VerifyReport verify(const std::string& path, Verify how, FileSystem* files) {
  try {
    return open_source(path, {.files = files})->verify(how);
  } catch (const CorruptError& e) {
    VerifyReport report;
    FileSystem& system = files != nullptr ? *files : posix_file_system();
    const auto info = system.stat(path);
    report.bytes = info ? info->size : 0;
    const bool knows_where = e.offset() != CorruptError::kNoOffset;
    report.damage.push_back(
        {.what = e.what(), .begin = knows_where ? e.offset() : 0, .end = report.bytes});
    return report;
  }
}

std::string VerifyReport::summary() const {
  if (!ok()) {
    std::string text = "damaged: " + describe(damage.front());
    if (damage.size() > 1) text += fmt::format("; and {} more places", damage.size() - 1);
    return text;
  }
  const char* checked = !has_checksums ? "not checked: its writer left out the checksums"
                        : has_manifest ? "every byte accounted for"
                                       : "all records match their CRC-32";
  return fmt::format("ok: {} records, {} bytes; {}", records, bytes, checked);
}

}  // namespace cairn
