// A training run that is killed, and a run that continues it.
#pragma once

#include <cstdint>

#include "cairn/train/options.h"
#include "cairn/train/trainer.h"

namespace cairn::testing {

// Trains until `last` batches are done and saved. Then an exception ends fit(); this function
// expects the exception and closes the Trainer. When it returns, every save that the run began has
// ended.
void run_until(TrainerOptions made, std::int64_t last);

// Trains to the end.
FitResult run(TrainerOptions made);

}  // namespace cairn::testing
