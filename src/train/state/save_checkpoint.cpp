#include "cairn/checkpoint/names.h"
#include "cairn/train/logger.h"
#include "cairn/train/rng.h"
#include "cairn/train/state.h"
#include "cairn/train/state_dict.h"

#include "train/state/checkpoint_info.h"

namespace cairn {

CheckpointInfo checkpoint_info(const State& state, bool weights_only) {
  return {.kind = weights_only ? "weights" : "full",
          .run_name = state.run_name,
          .timestamp = state.timestamp};
}

Value checkpoint_value(const State& state, const SaveCheckpointOptions& options, Logger* logger) {
  Dict checkpoint;
  if (options.weights_only) {
    checkpoint.set("state", state.model_state_dict());
  } else {
    checkpoint.set("state", state.state_dict());
    checkpoint.set("rng", rng_states());
  }
  Value value = std::move(checkpoint);
  for (const std::string& pattern : options.ignore_keys.apply(value)) {
    if (logger != nullptr) {
      logger->log_message("warning: save_ignore_keys \"" + pattern +
                          "\" matches nothing in the checkpoint");
    }
  }
  return value;
}

std::string save_checkpoint(const State& state, const std::string& filename,
                            const SaveCheckpointOptions& options) {
  std::string path =
      strict_format(filename, dist_variables(state.run_name) + time_variables(state.timestamp));
  SaveOptions save_options;
  save_options.info = checkpoint_info(state, options.weights_only);
  save_options.store = options.store;
  save(checkpoint_value(state, options), path, save_options);
  return path;
}

}  // namespace cairn
