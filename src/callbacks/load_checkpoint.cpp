#include "cairn/callbacks/load_checkpoint.h"

#include <utility>

#include "cairn/checkpoint/names.h"
#include "cairn/dist/dist.h"
#include "cairn/error.h"
#include "cairn/train/logger.h"
#include "cairn/train/state.h"
#include "cairn/train/state_dict.h"

#include "core/text/printable.h"
#include "dist/team.h"

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
  const std::string run_name = state.run_name;
  Team::of_job().run_on_all("loading " + printable_line(path), [&] {
    load_checkpoint(path, state, logger,
                    {.load_weights_only = options_.load_weights_only,
                     .strict_model_weights = options_.strict_model_weights,
                     .ignore_keys = options_.ignore_keys});
  });
  // A run that begins with another run's checkpoint keeps its name, and removes none of its files.
  if (std::exchange(state.run_name, run_name) != run_name) {
    for (const auto& callback : state.callbacks) {
      if (callback->name() == "CheckpointSaver") callback->load_state_dict(Dict());
    }
  }
  if (dist::rank() == 0) logger.log_message("LoadCheckpoint: loaded " + path);
}

}  // namespace cairn
