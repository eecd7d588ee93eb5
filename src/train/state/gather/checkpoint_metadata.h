// The "metadata" entry of a checkpoint: where and how it was written. For people and tools; nothing
// reads it back.
#pragma once

#include <cstdint>
#include <optional>

#include "cairn/value.h"

namespace cairn {

class State;

// Composer's keys. What Composer says of its own installation is said of cairn's here.
Value checkpoint_metadata(const State& state);

// Samples of a part of a train batch, for logs and checkpoints, as Composer: where batches are not
// cut, those of the loader's batches, if it says how many.
std::optional<std::int64_t> microbatch_size(const State& state);

}  // namespace cairn
