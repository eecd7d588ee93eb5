// What a checkpoint says of the training it comes from, whoever wrote it.
#pragma once

#include <tuple>

#include "cairn/checkpoint/checkpoint.h"

#include "checkpoint/open/source.h"

namespace cairn {

// Its manifest; without one, what the content gives away: "full" when it holds Composer's
// timestamp, "weights" when it holds a model only, "value" otherwise. Reads no tensor. Throws what
// read() throws, and MismatchError for a timestamp that is none.
CheckpointInfo training_info(const CheckpointSource& source);
// The same of a source that was read already.
CheckpointInfo training_info(const SourceInfo& source, const Value& value);

// Whether the content of a checkpoint that says it is "full" is the state of a training run, as far
// as can be told without the objects that it is to be loaded into: there is a state, its entries
// are containers, and it is of the moment that the manifest names. CorruptError, and what read()
// throws.
void check_training_state(const CheckpointSource& source);

// What orders checkpoints: how far training was.
inline auto position(const Timestamp& timestamp) {
  return std::tie(timestamp.batch, timestamp.epoch, timestamp.iteration, timestamp.sample);
}

}  // namespace cairn
