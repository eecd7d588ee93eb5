// The common form of every way to load a checkpoint into a State: load_checkpoint(), load_path and
// autoresume.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/train/state_dict.h"

namespace cairn {

class JointStore;

struct LoadJob {
  std::string path = {};
  std::optional<Checkpoint> checkpoint = std::nullopt;  // The one at `path`, if already open.
  // CheckpointSource::content() of the checkpoint that another rank opened at `path`. The content
  // of the checkpoint that this rank opens must be equal. Empty: any content.
  std::string content = {};
  LoadCheckpointOptions options = {};  // Where `path` is, and what to load from it.
  // The same as options.store, if machines have parts of the checkpoint; null otherwise.
  std::shared_ptr<const JointStore> joint = nullptr;
  // Set if options.in_place lost the weights. If it is already set, a checkpoint that does not
  // replace all weights is a MismatchError, whatever options.strict_model_weights says.
  bool* weights_are_lost = nullptr;
};

// Loads the checkpoint, as load_checkpoint() does.
std::optional<Value> load_now(const LoadJob& job, State& state, Logger& logger);

}  // namespace cairn
