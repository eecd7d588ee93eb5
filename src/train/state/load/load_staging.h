// Bringing the tensors of a checkpoint into fresh memory, verified: what a load does before it
// looks at any of them.
//
// clang-format off
//  1. begin(), before the checkpoint is decoded. When it is one file that lies here, and most of it
//     is wanted, threads read it whole into memory that lies as the file does (mirror.h), and
//     verify it on the way: the disk works while the caller decodes. In place, and where the
//     weights lie on devices, there is nothing yet that it could be read into: then it comes into
//     the page cache meanwhile, as far as it goes.
//  2. stage() gives what is wanted of the decoded tree its memory: parts of that, otherwise memory
//     of its own (staging.h), on the host or on the device that it is for (device_targets.h).
//  3. finish() waits for 1, or reads and verifies now. What lies in the file so that libtorch could
//     not use it there is copied. From then on nobody looks at the file.
// clang-format on
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/train/state_dict.h"
#include "cairn/value.h"

#include "train/state/device/staged_reads.h"
#include "train/state/device/staging.h"

namespace cairn {

class CacheAhead;

class LoadStaging {
 public:
  explicit LoadStaging(Checkpoint opened);
  // Ends 1.
  ~LoadStaging();
  LoadStaging(const LoadStaging&) = delete;
  LoadStaging& operator=(const LoadStaging&) = delete;

  // Step 1, for this load, where it pays.
  void begin(const State& state, const LoadCheckpointOptions& options);

  // Whether step 2 has a use for targets.
  bool takes_targets() const;
  // What step 2 is about.
  struct Wanted {
    bool with_others = true;                         // the entries beside "state"
    std::function<bool(const Value& key)> of_state;  // which of that
    std::function<bool(const Storage&)> storage;     // which storages of those
    const DeviceTargets* targets = nullptr;          // which of them lie on devices then
  };
  // Step 2, once: `checkpoint`, a dict with a "state", with fresh memory for what is wanted, filled
  // by step 3. What nobody else has of it is changed where it is. std::bad_alloc, which leaves it
  // in part.
  void stage(Value& checkpoint, const Wanted& wanted);

  // Step 3, once: called again it does nothing, or fails as it did. `verify`: of what step 1 does
  // not read. CorruptError that says what is damaged, StorageError; what libtorch throws.
  void finish(Verify verify);
  // Fills the memory of `reads`, verified as `verify` says. Throws as finish() does.
  void read(StagedReads reads, Verify verify);

  // Of a file that is too large for the machine. CorruptError when it is damaged, for that is worth
  // more to know, and a file may say that it is large; otherwise Error.
  [[noreturn]] void refuse_size(Verify verify);

 private:
  struct Whole;
  void copy_from_mirror();

  const Checkpoint opened_;
  std::unique_ptr<CacheAhead> ahead_;
  std::unique_ptr<Whole> whole_;
  StagedReads reads_;
  std::vector<MirrorCopy> copies_;
  bool is_finished_ = false;
  std::exception_ptr failure_;  // of finish()
};

}  // namespace cairn
