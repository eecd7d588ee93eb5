#include "cairn/callbacks/free_outputs.h"

#include "cairn/error.h"
#include "cairn/train/state.h"

namespace cairn {

void FreeOutputs::fit_start(State& state, Logger& /*logger*/) {
  if (state.train_metrics.empty()) return;
  throw UsageError("FreeOutputs drops the outputs that the training metric \"" +
                   state.train_metrics.front().first +
                   "\" needs: leave out FreeOutputs, or let get_metrics(/*is_train=*/true) return "
                   "nothing");
}

void FreeOutputs::after_loss(State& state, Logger& /*logger*/) { state.outputs = Outputs(); }

}  // namespace cairn
