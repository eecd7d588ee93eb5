#include "checkpoint/open/formats/torch_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "cairn/error.h"

namespace cairn {
namespace {

// Finds the names of damaged records and of the tensors in them. For this, decodes the file once
// more, so that nothing has to be kept for a good file.
class RecordNames {
 public:
  explicit RecordNames(const std::shared_ptr<const ByteSource>& source) {
    try {
      const TorchFile file(source);
      for (const FileRecord& record : file.records()) {
        by_offset_[record.offset].name = record.name;
      }
      const Value value = file.read();
      for (const auto& [path, tensor] : tensors_of(value)) {
        if (tensor->storage == nullptr || tensor->storage->source() == nullptr) continue;
        by_offset_[tensor->storage->source_offset()].tensors.push_back(path);
      }
    } catch (const Error&) {
      // In this case, Damage names only its range of bytes.
    }
  }

  void add_to(Damage& damage) const {
    const auto found = by_offset_.find(damage.begin);
    if (found == by_offset_.end()) return;
    damage.record = found->second.name;
    damage.tensors = found->second.tensors;
  }

 private:
  struct Record {
    std::string name;
    std::vector<std::string> tensors;
  };
  std::unordered_map<std::uint64_t, Record> by_offset_;
};

// The VerifiedSource::Check of a file.
void check_torch_records(const std::shared_ptr<const ByteSource>& source, const CheckedRead& read,
                         const std::vector<FileRecord>& records, VerifyReport& report) {
  const std::vector<std::uint32_t> crcs = crcs_of(read, records);
  std::optional<RecordNames> names;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const FileRecord& record = records[i];
    if (crcs[i] == record.crc32) continue;
    if (!names) names.emplace(source);
    Damage damage{
        .what = fmt::format("its CRC-32 is {:08x}, but {:08x} was written", crcs[i], record.crc32),
        .record = record.name,
        .begin = record.offset,
        .end = record.offset + record.size};
    names->add_to(damage);
    report.damage.push_back(std::move(damage));
  }
}

}  // namespace

TorchCheckpoint::TorchCheckpoint(const std::shared_ptr<const ByteSource>& opened)
    : path(opened->name()),
      source(opened),
      tensors(std::make_shared<const VerifiedSource>(
          opened,
          [opened](const auto& read, const auto& records, VerifyReport& report) {
            check_torch_records(opened, read, records, report);
          })),
      file(opened, tensors) {}

const std::string& TorchCheckpoint::difference() const {
  std::call_once(difference_->once, [&] {
    if (manifest) difference_->text = compare_with_records(*manifest, file.records());
  });
  return difference_->text;
}

TorchCheckpoint open_torch_checkpoint(const std::shared_ptr<const ByteSource>& source,
                                      Access access) {
  TorchCheckpoint checkpoint(source);
  const TorchFile& file = checkpoint.file;
  if (access == Access::kVerified && file.has_checksums()) {
    checkpoint.tensors->add(file.checked_records());
  }
  const std::string& path = checkpoint.path;
  const FileRecord* record = file.find_record(kManifestRecord);
  if (record == nullptr) return checkpoint;
  if (!file.matches_crc(*record)) {
    throw CorruptError(path + ": the manifest is damaged (its CRC-32 differs)", path,
                       record->offset);
  }
  try {
    const SharedBytes bytes = file.bytes_of(*record);
    checkpoint.manifest = parse_manifest(as_text(bytes.view));
  } catch (const CorruptError& e) {
    throw CorruptError(path + ": " + e.what(), path, record->offset);
  } catch (Error& e) {
    e.add_context(path);
    throw;
  }
  return checkpoint;
}

}  // namespace cairn
