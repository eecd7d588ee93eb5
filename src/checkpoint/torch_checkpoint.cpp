#include "checkpoint/torch_checkpoint.h"

#include "cairn/error.h"

namespace cairn {

TorchCheckpoint open_torch_checkpoint(SharedBytes bytes, const std::string& path) {
  TorchFile file(bytes, path);
  TorchCheckpoint checkpoint{path, std::move(bytes), std::move(file), std::nullopt};
  const FileRecord* record = checkpoint.file.find_record(kManifestRecord);
  if (record == nullptr) return checkpoint;
  if (!checkpoint.file.matches_crc(*record)) {
    throw CorruptError(path + ": the manifest is damaged (its CRC-32 differs)", path,
                       record->offset);
  }
  try {
    checkpoint.manifest = parse_manifest(as_text(checkpoint.file.bytes_of(*record)));
  } catch (const CorruptError& e) {
    throw CorruptError(path + ": " + e.what(), path, record->offset);
  } catch (Error& e) {
    e.add_context(path);
    throw;
  }
  return checkpoint;
}

}  // namespace cairn
