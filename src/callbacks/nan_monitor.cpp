#include "cairn/callbacks/nan_monitor.h"

#include <torch/torch.h>

#include "cairn/error.h"
#include "cairn/train/state.h"

namespace cairn {

void NaNMonitor::after_loss(State& state, Logger& /*logger*/) {
  if (!state.loss.defined() || !state.loss.isnan().any().item<bool>()) return;
  throw TrainingError("the loss of batch " + std::to_string(state.timestamp.batch) +
                      " is NaN; no weight was changed by it. Lower the learning rate, clip "
                      "gradients, or look at the data of this batch");
}

}  // namespace cairn
