// A small checkpoint like those of a Trainer, for tests of what happens to files.
#pragma once

#include <string>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/value.h"

namespace cairn::testing {

// The state at `batch`: a model with a tied weight, an optimizer, a timestamp, random states. Every
// tensor's content depends on `batch`, so equal Values come from the same save. `bytes` is about
// the size of the largest tensor.
Value sample_checkpoint(std::int64_t batch, std::size_t bytes = 256);

// The description that a Trainer gives sample_checkpoint(batch): kind "full", and the timestamp.
CheckpointInfo sample_info(std::int64_t batch);

// The batch for which `value` equals sample_checkpoint(batch), byte by byte. -1 if there is none.
std::int64_t batch_of_sample(const Value& value, std::size_t bytes = 256);

}  // namespace cairn::testing
