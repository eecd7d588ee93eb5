// A checkpoint that is one file, brought into memory as it lies there and verified on the way, by
// threads of its own: while the disk is busy, its caller decodes it.
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
  // The file, which all tensors of the checkpoint are ranges of, where reading all of it costs no
  // more than Verify::kFull; otherwise nullptr.
  static std::shared_ptr<const ByteSource> file_of(const Checkpoint& checkpoint);

  // Begins. `place` is as long as file_of(), and must outlive it. std::system_error when there is
  // no thread.
  WholeRead(const Checkpoint& checkpoint, std::span<std::byte> place);
  ~WholeRead();  // ends it
  WholeRead(const WholeRead&) = delete;
  WholeRead& operator=(const WholeRead&) = delete;

  // Waits, once: as Checkpoint::read() of everything with Verify::kFull.
  VerifyReport finish();

 private:
  std::atomic<bool> ended_ = false;
  std::optional<VerifyReport> report_;
  std::exception_ptr error_;
  std::jthread thread_;
};

// The same file while nothing can be read into its place yet: the disk brings it into the page
// cache meanwhile, as far as it comes.
class CacheAhead {
 public:
  // Begins. std::system_error when there is no thread.
  explicit CacheAhead(std::shared_ptr<const ByteSource> file);
  ~CacheAhead();  // ends it
  CacheAhead(const CacheAhead&) = delete;
  CacheAhead& operator=(const CacheAhead&) = delete;

 private:
  std::atomic<bool> ended_ = false;
  std::jthread thread_;
};

}  // namespace cairn
