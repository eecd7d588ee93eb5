// The "metadata" entry of a checkpoint: where and how it was written. For people and tools; nothing
// reads it back.
#pragma once

#include <cstdint>
#include <optional>

#include "cairn/export.h"
#include "cairn/value.h"

namespace CAIRN_PUBLIC cairn {
class State;
}  // namespace cairn

namespace cairn {

// Uses Composer's keys. Where Composer describes its own installation, this describes cairn's. Also
// has the Trainer's options (checkpoint/open/run_options.h).
Value checkpoint_metadata(const State& state);

// The number of samples in a part of a train batch, for logs and checkpoints, as in Composer. If
// batches are not cut, the loader's batch size, if the loader has one.
std::optional<std::int64_t> microbatch_size(const State& state);

}  // namespace cairn
