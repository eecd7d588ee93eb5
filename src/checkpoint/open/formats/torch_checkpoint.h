// A torch.save file, with cairn's manifest if there is one.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/format/torch_file.h"

#include "checkpoint/open/read_storages.h"
#include "checkpoint/open/source.h"
#include "checkpoint/open/verify/verified_source.h"
#include "checkpoint/plan/manifest.h"

namespace cairn {

struct TorchCheckpoint {
  explicit TorchCheckpoint(const std::shared_ptr<const ByteSource>& opened);

  std::string path;
  std::shared_ptr<const ByteSource> source;
  // the same bytes, verified; the tensors are ranges of this source
  std::shared_ptr<const VerifiedSource> tensors;
  TorchFile file;
  std::optional<Manifest> manifest = std::nullopt;

  // Describes how the records differ from the manifest. Empty if they do not differ, or if there is
  // no manifest. Computed once, since it looks at each record. Thread-safe.
  const std::string& difference() const;

 private:
  struct Difference {
    std::once_flag once;
    std::string text;
  };
  std::shared_ptr<Difference> difference_ = std::make_shared<Difference>();
};

// Reads the directory of records and the manifest. Throws UnsupportedError and CorruptError.
TorchCheckpoint open_torch_checkpoint(const std::shared_ptr<const ByteSource>& source,
                                      Access access);

// CheckpointSource::check() for a checkpoint from open_torch_checkpoint(). If `reads` want
// anything, the bytes that were read while the file was opened are not read again, so that each
// byte is read once.
VerifyReport verify_opened(const TorchCheckpoint& checkpoint, Verify how, PendingReads& reads,
                           const std::function<void(std::uint64_t)>& on_progress);

}  // namespace cairn
