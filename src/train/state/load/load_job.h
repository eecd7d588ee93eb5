// What every way to load a checkpoint into a State is translated into: load_checkpoint()'s, that of
// load_path, autoresume's.
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
  std::optional<Checkpoint> checkpoint = std::nullopt;  // of `path`, when it is open already
  // CheckpointSource::content() of what another rank opened at `path`: what is there must have
  // the same. Empty: whatever is there.
  std::string content = {};
  LoadCheckpointOptions options = {};  // where `path` is, and what of it to load
  // The same as options.store, when machines have parts of the checkpoint; null otherwise.
  std::shared_ptr<const JointStore> joint = nullptr;
  // Set when options.in_place lost the weights. When it is set already, a checkpoint that does not
  // replace all of them is a MismatchError, whatever options.strict_model_weights says.
  bool* weights_are_lost = nullptr;
};

// Does it, as load_checkpoint().
std::optional<Value> load_now(const LoadJob& job, State& state, Logger& logger);

}  // namespace cairn
