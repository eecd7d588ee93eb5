#include "cairn/callbacks/load_checkpoint.h"

#include <utility>

#include "cairn/checkpoint/names.h"
#include "cairn/dist/dist.h"
#include "cairn/error.h"
#include "cairn/train/logger.h"
#include "cairn/train/state.h"
#include "cairn/train/state_dict.h"

namespace cairn {

LoadCheckpoint::LoadCheckpoint(LoadCheckpointCallbackOptions options)
    : options_(std::move(options)) {
  if (options_.load_path.empty()) throw UsageError("LoadCheckpoint needs load_path");
  if (!options_.load_weights_only && options_.event != Event::kBeforeLoad) {
    throw UsageError("LoadCheckpoint: at the event " + std::string(cairn::name(options_.event)) +
                     " a run is under way, and only weights can be loaded: set load_weights_only, "
                     "or use the event before_load");
  }
}

void LoadCheckpoint::run_event(Event event, State& state, Logger& logger) {
  if (event != options_.event) return;
  const std::string path =
      strict_format(NameFormat(options_.load_path), dist_variables(state.run_name));
  load_checkpoint(path, state, logger,
                  {.load_weights_only = options_.load_weights_only,
                   .strict_model_weights = options_.strict_model_weights,
                   .ignore_keys = options_.ignore_keys});
  if (dist::rank() == 0) logger.log_message("LoadCheckpoint: loaded " + path);
}

}  // namespace cairn
