// Brings the tensors of a checkpoint into fresh memory, verified. A load does this before it uses
// any of them.
//
// clang-format off
//  1. begin(), before the checkpoint is decoded. If the checkpoint is one local file, and most of
//     it is wanted, threads read it whole. It goes into memory with the layout of the file
//     (mirror.h), and is verified on the way. So the disk works while the caller decodes. With
//     in_place, or if the weights lie on devices, there is no memory to read into yet. Then the
//     file is meanwhile read into the page cache, as far as possible.
//  2. stage() gives the wanted tensors of the decoded tree their memory: parts of the mirror, or
//     memory of their own (staging.h), on the host or on their device (device_targets.h).
//  3. finish() waits for the end of step 1. If step 1 read nothing into memory, finish() reads and
//     verifies now. Tensors whose place in the file does not suit libtorch are copied. After that,
//     nothing reads the file.
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
  // Ends step 1.
  ~LoadStaging();
  LoadStaging(const LoadStaging&) = delete;
  LoadStaging& operator=(const LoadStaging&) = delete;

  // Step 1, if it pays for this load.
  void begin(const State& state, const LoadCheckpointOptions& options);

  // Whether step 2 can use targets.
  bool takes_targets() const;
  // The tensors that step 2 stages.
  struct Wanted {
    bool with_others = true;                         // Also the entries beside "state".
    std::function<bool(const Value& key)> of_state;  // The entries of "state".
    std::function<bool(const Storage&)> storage;     // The storages of those entries.
    const DeviceTargets* targets = nullptr;          // The storages that go to devices.
  };
  // Step 2. Call it once, with a dict that has a "state". The wanted storages get fresh memory,
  // which step 3 fills. Parts without another owner are changed in place. Throws std::bad_alloc,
  // which leaves `checkpoint` partly staged.
  void stage(Value& checkpoint, const Wanted& wanted);

  // Step 3. A second call does nothing, or throws the same error again. `verify` applies to what
  // step 1 does not read. Throws CorruptError, which says what is damaged, StorageError, and
  // libtorch's exceptions.
  void finish(Verify verify);
  // Fills the memory of `reads`, verified according to `verify`. Throws as finish() does.
  void read(StagedReads reads, Verify verify);

  // For a file that is too large for the machine. Throws CorruptError if the file is damaged: that
  // is more useful to know, and a damaged file may claim any size. Otherwise throws Error.
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
  std::exception_ptr failure_;  // From finish().
};

}  // namespace cairn
