// What the loops ask of a DataSpec: its functions, or Composer's defaults where they are not set.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cairn/train/data.h"

namespace cairn {

// Samples of a batch: the common length of dimension 0. UsageError naming the option to set when
// tensors disagree or have no dimension.
std::int64_t num_samples_in_batch(const DataSpec& spec, const Batch& batch);

// Tokens of a batch: elements of "input_ids", padding included; 0 where there are none, so that
// time in tokens stands still.
std::int64_t num_tokens_in_batch(const DataSpec& spec, const Batch& batch);

// Consecutive parts of at most `microbatch_size` samples; the batch itself when it has no more.
std::vector<Batch> split_batch(const DataSpec& spec, const Batch& batch,
                               std::int64_t microbatch_size);

// The first of such parts, of a batch that has more samples; unlike split_batch() it asks nobody
// how many.
Batch first_samples(const DataSpec& spec, const Batch& batch, std::int64_t count);

// Batches of an epoch after subsetting: min(subset, the loader's), whichever is known; nullopt when
// neither is. `subset` is -1 for all.
std::optional<std::int64_t> epoch_length(const DataSpec& spec, std::int64_t subset);

}  // namespace cairn
