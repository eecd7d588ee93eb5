// What every way to load a checkpoint into a State is translated into: load_checkpoint()'s, that of
// load_path, autoresume's.
#pragma once

#include <optional>
#include <string>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/train/state_dict.h"

namespace cairn {

struct LoadJob {
  std::string path = {};
  std::optional<Checkpoint> checkpoint = std::nullopt;  // of `path`, when it is open already
  LoadCheckpointOptions options = {};                   // where `path` is, and what of it to load
};

// Does it, as load_checkpoint().
std::optional<Value> load_now(const LoadJob& job, State& state, Logger& logger);

}  // namespace cairn
