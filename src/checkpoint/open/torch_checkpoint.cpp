#include "checkpoint/open/torch_checkpoint.h"

#include "cairn/error.h"

namespace cairn {

TorchCheckpoint open_torch_checkpoint(const std::shared_ptr<const ByteSource>& source) {
  const std::string path = source->name();
  TorchCheckpoint checkpoint{path, source, TorchFile(source), std::nullopt};
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
