// A checkpoint that is far away, or on another machine of the job (joint_checkpoints.h), is fetched
// once for all processes of a machine.
//
//  1. The ranks tell each other on which machines they are. If a machine has several ranks, the
//     first one fetches. A rank that is alone on its machine reads from the store, as in a job of
//     one process.
//  2. The fetching rank copies the checkpoint unchanged into a private folder in $TMPDIR or
//     /var/tmp. Copying may take any time (LongWork): the other ranks wait, and know when it ends.
//  3. All ranks tell each other where the copies are. A rank without a copy (copying failed, or its
//     container has other files) reads from the store. The error of this read then describes the
//     problem better than a copy could.
//  4. The fetching rank removes the copy when all ranks have loaded.
//
// There is no copy of a checkpoint on this machine, nor if each rank reads only its own rows: the
// rows of a machine's ranks together are no larger than the copy would be.
//
// With load_weights_only, weights are about a third of a checkpoint, and only they are read. Then
// copying everything is worth its transfer only for three processes or more.
#pragma once

#include <optional>
#include <string>

#include "cairn/train/logger.h"

#include "io/files/private_folder.h"
#include "train/state/load/load_job.h"

namespace cairn {

class NodeCopy {
 public:
  // Collective: all ranks construct a NodeCopy at the same time. `in_parts`: each rank reads only
  // its rows. Throws DistError.
  NodeCopy(const LoadJob& job, bool in_parts, Logger& logger);

  // The job that this rank loads: `job`, or the same from the copy. Use it while this object lives.
  // The object must live until all ranks have loaded.
  const LoadJob& nearest() const { return nearest_; }

 private:
  std::string fetch(const LoadJob& job, Logger& logger);

  LoadJob nearest_;
  std::optional<PrivateFolder> folder_;  // Set on the fetching rank.
};

}  // namespace cairn
