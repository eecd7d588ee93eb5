// A small checkpoint as a Trainer makes them, for tests of what happens to files.
#pragma once

#include <string>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/value.h"

namespace cairn::testing {

// State at `batch`: a model with a tied weight, an optimizer, a timestamp, random states. Every
// tensor's content depends on `batch`, so that equal Values come from one save. `bytes` is about
// the size of the largest tensor.
Value sample_checkpoint(std::int64_t batch, std::size_t bytes = 256);

// What a Trainer says of it: kind "full", and the timestamp.
CheckpointInfo sample_info(std::int64_t batch);

// The batch of sample_checkpoint() that `value` is, every byte compared; -1 for anything else.
std::int64_t batch_of_sample(const Value& value, std::size_t bytes = 256);

}  // namespace cairn::testing
