// A checkpoint that is far away, or on another machine of the job (joint_checkpoints.h), fetched
// once for all processes of a machine.
//
//  1. The ranks tell each other on which machine they are. Where there are several, the first of
//     them fetches; one that is alone reads from the store, as in a job of one process.
//  2. It copies the checkpoint as it is into a folder of its own in $TMPDIR or /var/tmp. That may
//     take as long as it takes (LongWork): the others wait, and know when it ends.
//  3. All tell each other where the copies are. Who finds none (the copy failed; a container has
//     files of its own) reads from the store, and says what is wrong with it better than any copy.
//  4. Who fetched removes the copy, when all ranks have loaded.
//
// Not of what lies on this machine, and not where each rank reads its own rows and no more: those
// of a machine are no more together than the copy would be.
//
// Of weights alone (load_weights_only), which are about a third of a checkpoint and read alone, a
// copy of everything is worth its transfer from three processes on.
#pragma once

#include <optional>
#include <string>

#include "cairn/train/logger.h"

#include "io/files/private_folder.h"
#include "train/state/load/load_job.h"

namespace cairn {

class NodeCopy {
 public:
  // All ranks make one at the same time. `in_parts`: each rank reads its rows. DistError.
  NodeCopy(const LoadJob& job, bool in_parts, Logger& logger);

  // From where this rank loads: `job`, or the same from the copy. To be used while this lives,
  // which must be until all ranks have loaded.
  const LoadJob& nearest() const { return nearest_; }

 private:
  std::string fetch(const LoadJob& job, Logger& logger);

  LoadJob nearest_;
  std::optional<PrivateFolder> folder_;  // of who fetches
};

}  // namespace cairn
