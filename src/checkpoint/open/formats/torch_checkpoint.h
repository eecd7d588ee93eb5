// A torch.save file with what cairn adds to it.
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
  std::shared_ptr<const VerifiedSource> tensors;  // the same bytes; the tensors are ranges of it
  TorchFile file;
  std::optional<Manifest> manifest = std::nullopt;

  // How the records differ from the manifest; empty when they do not, or there is none. Found once:
  // it takes a look at each record. From any thread.
  const std::string& difference() const;

 private:
  struct Difference {
    std::once_flag once;
    std::string text;
  };
  std::shared_ptr<Difference> difference_ = std::make_shared<Difference>();
};

// Reads the directory of records and the manifest. UnsupportedError, CorruptError.
TorchCheckpoint open_torch_checkpoint(const std::shared_ptr<const ByteSource>& source,
                                      Access access);

// CheckpointSource::check() of what open_torch_checkpoint() could open. When something is read,
// what was read while it was opened is not read again, so that each byte is read once.
VerifyReport verify_opened(const TorchCheckpoint& checkpoint, Verify how, PendingReads& reads,
                           const std::function<void(std::uint64_t)>& on_progress);

}  // namespace cairn
