// What a checkpoint says of the training it comes from, whoever wrote it.
#pragma once

#include <tuple>

#include "cairn/checkpoint/checkpoint.h"

#include "checkpoint/source.h"

namespace cairn {

// Its manifest; without one, what the content gives away: "full" when it holds Composer's
// timestamp, "weights" when it holds a model only, "value" otherwise. Reads no tensor. Throws what
// read() throws, and MismatchError for a timestamp that is none.
CheckpointInfo training_info(const CheckpointSource& source);
// The same of a source that was read already.
CheckpointInfo training_info(const SourceInfo& source, const Value& value);

// What orders checkpoints: how far training was.
inline auto position(const Timestamp& timestamp) {
  return std::tie(timestamp.batch, timestamp.epoch, timestamp.iteration, timestamp.sample);
}

}  // namespace cairn
