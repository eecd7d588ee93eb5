// Reads from a checkpoint which training it comes from, whatever program wrote it.
#pragma once

#include <tuple>

#include "cairn/checkpoint/checkpoint.h"

#include "checkpoint/open/source.h"

namespace cairn {

// Returns the manifest's info. Without a manifest, the content decides: "full" if it has Composer's
// timestamp, "weights" if it has only a model, otherwise "value". Reads no tensor. Throws what
// read() throws, and MismatchError for an invalid timestamp.
CheckpointInfo training_info(const CheckpointSource& source);
// The same for a source that was already read.
CheckpointInfo training_info(const SourceInfo& source, const Value& value);

// Checks that a checkpoint that claims to be "full" holds the state of a training run: there is a
// state, its entries are containers, and its timestamp equals the manifest's timestamp. More cannot
// be checked without the objects to load it into. Throws CorruptError otherwise, and what read()
// throws.
void check_training_state(const CheckpointSource& source);

// How far training was. Orders checkpoints.
inline auto position(const Timestamp& timestamp) {
  return std::tie(timestamp.batch, timestamp.epoch, timestamp.iteration, timestamp.sample);
}

}  // namespace cairn
