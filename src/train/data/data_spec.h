// What the loops need from a DataSpec: its functions, or Composer's defaults for functions that are
// not set.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cairn/train/data.h"

namespace cairn {

// The number of samples of a batch: the common length of dimension 0. Throws UsageError if tensors
// disagree or have no dimension; the error names the option to set.
std::int64_t num_samples_in_batch(const DataSpec& spec, const Batch& batch);

// The number of tokens of a batch: elements of "input_ids", padding included. 0 without such a
// tensor, so that time in tokens stands still.
std::int64_t num_tokens_in_batch(const DataSpec& spec, const Batch& batch);

// Cuts a batch into consecutive parts of at most `microbatch_size` samples. If the batch has no
// more samples, returns the batch itself.
std::vector<Batch> split_batch(const DataSpec& spec, const Batch& batch,
                               std::int64_t microbatch_size);

// The first `count` samples of a batch that has more. Unlike split_batch(), it does not count the
// samples.
Batch first_samples(const DataSpec& spec, const Batch& batch, std::int64_t count);

// The number of batches of an epoch after subsetting: the smaller of `subset` and the loader's
// number, as far as these are known. nullopt if neither is known. A `subset` of -1 means all.
std::optional<std::int64_t> epoch_length(const DataSpec& spec, std::int64_t subset);

}  // namespace cairn
