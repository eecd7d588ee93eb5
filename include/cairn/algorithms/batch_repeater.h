// BatchRepeater: computes the gradients of a batch twice.
#pragma once

#include "cairn/export.h"

namespace CAIRN_PUBLIC cairn {

class State;

// Derive an Algorithm from BatchRepeater, too, if it needs gradients at other weights than the
// model's (SAM). At most one algorithm of a run may do so. Called on the training thread, after
// after_train_batch, so that gradients are complete and clipped; with several processes they are
// the average over the ranks. All ranks must answer alike.
class BatchRepeater {
 public:
  virtual ~BatchRepeater() = default;

  // Whether to compute the gradients once more. If so, it has put other weights into the model. The
  // gradients are then dropped, and the events from before_train_batch to after_train_batch come
  // again. The batch's losses stay those of the first time; its metrics are those of the last.
  virtual bool begin_repeat(State& state) = 0;
  // Restores the weights, also when the second pass threw. The optimizer steps afterwards.
  virtual void end_repeat(State& state) = 0;
};

}  // namespace cairn
