// Step 8 of checkpoint_saver.cpp: sharded checkpoints, which all ranks write together.
#include "cairn/error.h"

#include "callbacks/checkpoint_saver_impl.h"
#include "storage/local_store.h"
#include "train/state/checkpoint_info.h"

namespace cairn {

// All ranks together, before training.
void CheckpointSaver::Impl::begin_sharded(const State& state) {
  if (has_uploads) {
    throw UnsupportedError(
        "sharded checkpoints (state_dict_type \"sharded\") are not uploaded by loggers: let "
        "save_folder be the place itself, as s3://bucket/{run_name}, or take state_dict_type "
        "\"full\"");
  }
  const std::size_t slash = options.filename.rfind('/');
  const std::string folders =
      slash == std::string::npos ? "" : options.filename.substr(0, slash + 1);
  options.filename = folders + state.sharded_ckpt_prefix_dir;
  check_names(options, dist_variables(state.run_name));
  if (!ranks) ranks = std::make_unique<RankSaves>();
}

// All ranks have the same errors here.
void CheckpointSaver::Impl::save_over_ranks(State& state, Logger& logger) {
  wait();  // for what the save before came to
  report(logger);
  last_checkpoint_batch = state.timestamp.batch;
  if (!saves_anything()) return;
  SaveJob job = next_job(state);
  bool overwrite = !is_far || options.overwrite || replaceable.contains(job.path);
  if (is_of_several()) {
    const Value said = dist::broadcast_value(List{job.path, overwrite});
    job.path = said.as_items().at(0).as_str();
    overwrite = said.as_items().at(1).as_bool();
  }
  if (is_written_elsewhere()) {
    job.latest.clear();
    job.remove_afterwards.clear();
  }
  try {
    ranks->fill(job, state,
                {.weights_only = options.weights_only, .ignore_keys = options.ignore_keys},
                overwrite, &logger);
    submit(std::move(job));
  } catch (...) {
    forget_failed();
    throw;
  }
  report(logger);
}

}  // namespace cairn
