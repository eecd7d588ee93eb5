// Reads a checkpoint that is one file into memory as it is, and verifies it in the same pass.
// WholeRead uses its own threads, so the caller can decode the checkpoint while the disk is busy.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <thread>

#include "cairn/checkpoint/checkpoint.h"

namespace cairn {

class WholeRead {
 public:
  // The file of which all tensors of the checkpoint are ranges. nullptr unless reading all of this
  // file costs no more than Verify::kFull.
  static std::shared_ptr<const ByteSource> file_of(const Checkpoint& checkpoint);

  // Begins to read. `place` is as long as file_of(), and must outlive this object. Throws
  // std::system_error if no thread can be started.
  WholeRead(const Checkpoint& checkpoint, std::span<std::byte> place);
  ~WholeRead();  // ends it
  WholeRead(const WholeRead&) = delete;
  WholeRead& operator=(const WholeRead&) = delete;

  // Waits for the end; call it once. Returns and throws what Checkpoint::read() of everything with
  // Verify::kFull does.
  VerifyReport finish();

 private:
  std::atomic<bool> ended_ = false;
  std::optional<VerifyReport> report_;
  std::exception_ptr error_;
  std::jthread thread_;
};

// Reads the same file into the page cache while the memory for a WholeRead is not available yet.
class CacheAhead {
 public:
  // Begins to read. Throws std::system_error if no thread can be started.
  explicit CacheAhead(std::shared_ptr<const ByteSource> file);
  ~CacheAhead();  // ends it
  CacheAhead(const CacheAhead&) = delete;
  CacheAhead& operator=(const CacheAhead&) = delete;

 private:
  std::atomic<bool> ended_ = false;
  std::jthread thread_;
};

}  // namespace cairn
