// Trainer::predict(): forward over a loader.
#pragma once

#include <vector>

#include "train/loop/loop_context.h"

namespace cairn {

// Returns the outputs of each batch, on the host; none if `return_outputs` is false. Throws
// UsageError for an unsized loader without a subset.
std::vector<Outputs> run_predict(LoopContext& context, DataSpec& dataloader,
                                 std::int64_t subset_num_batches, bool return_outputs);

}  // namespace cairn
