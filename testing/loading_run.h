// A run whose checkpoint holds some of everything, for tests of loading.
#pragma once

#include "cairn/algorithms/ema.h"
#include "cairn/optim/optimizers.h"
#include "cairn/schedulers/schedulers.h"
#include "cairn/train/state_dict.h"
#include "cairn/train/trainer.h"

#include "checkpoint/plan/snapshot.h"
#include "testing/tiny_model.h"

namespace cairn::testing {

inline TrainerOptions loading_run() {
  TrainerOptions made = tiny_options({.dropout = 0.2, .metrics = true});
  made.optimizers = AdamW({.lr = 0.01});
  made.schedulers = LinearScheduler();
  made.algorithms = {EMA({.half_life = "1ba"})};
  made.max_duration = "3ba";
  made.run_name = "run";
  return made;
}

// A copy of everything that a checkpoint would hold now.
inline Value current_checkpoint(Trainer& trainer) {
  return Snapshotter().take(checkpoint_value(trainer.state(), {}));
}

}  // namespace cairn::testing
