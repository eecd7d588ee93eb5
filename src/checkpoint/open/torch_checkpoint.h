// A torch.save file with what cairn adds to it.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/format/torch_file.h"

#include "checkpoint/open/read_storages.h"
#include "checkpoint/plan/manifest.h"

namespace cairn {

struct TorchCheckpoint {
  std::string path;
  std::shared_ptr<const ByteSource> source;
  TorchFile file;
  std::optional<Manifest> manifest;
};

// Reads the directory of records and the manifest. UnsupportedError, CorruptError.
TorchCheckpoint open_torch_checkpoint(const std::shared_ptr<const ByteSource>& source);

// CheckpointSource::check() of what open_torch_checkpoint() could open. When something is read,
// what was read while it was opened is not read again, so that each byte is read once.
VerifyReport verify_opened(const TorchCheckpoint& checkpoint, Verify how, PendingReads& reads,
                           const std::function<void(std::uint64_t)>& on_progress);

}  // namespace cairn
