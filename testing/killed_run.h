// A training run that is killed, and one that goes on.
#pragma once

#include <cstdint>

#include "cairn/train/options.h"
#include "cairn/train/trainer.h"

namespace cairn::testing {

// Trains until `last` batches are done and saved, and dies there as from an exception, which the
// test expects. The Trainer is closed: every save that it began has ended.
void run_until(TrainerOptions made, std::int64_t last);

// Trains to the end.
FitResult run(TrainerOptions made);

}  // namespace cairn::testing
