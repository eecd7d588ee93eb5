#include "checkpoint/open/torch_checkpoint.h"

#include "cairn/error.h"

namespace cairn {

const std::string& TorchCheckpoint::difference() const {
  std::call_once(difference_->once, [&] {
    if (manifest) difference_->text = compare_with_records(*manifest, file.records());
  });
  return difference_->text;
}

TorchCheckpoint open_torch_checkpoint(const std::shared_ptr<const ByteSource>& source) {
  TorchCheckpoint checkpoint(source);
  const std::string& path = checkpoint.path;
  const FileRecord* record = checkpoint.file.find_record(kManifestRecord);
  if (record == nullptr) return checkpoint;
  if (!checkpoint.file.matches_crc(*record)) {
    throw CorruptError(path + ": the manifest is damaged (its CRC-32 differs)", path,
                       record->offset);
  }
  try {
    const SharedBytes bytes = checkpoint.file.bytes_of(*record);
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
