// A torch.save file with what cairn adds to it.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/format/torch_file.h"

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

struct VerifyOptions {
  Verify how = Verify::kFull;
  std::function<void(std::uint64_t bytes)> on_progress = nullptr;  // see OpenOptions
  // For each record where its bytes go, see record_crcs(); or empty.
  std::vector<std::span<std::byte>> places = {};
  // What was read while it was opened is not read again, so that each byte is read once.
  bool trust_memory = false;
};

// As verify(), for what open_torch_checkpoint() could open. Fills the places.
VerifyReport verify_opened(const TorchCheckpoint& checkpoint, const VerifyOptions& options);

}  // namespace cairn
