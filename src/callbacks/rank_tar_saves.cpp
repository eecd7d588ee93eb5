// Step 10 of checkpoint_saver.cpp: checkpoints that are a tar of each rank.
#include "cairn/error.h"

#include "callbacks/checkpoint_saver_impl.h"
#include "checkpoint/names/format_string.h"
#include "checkpoint/names/run_forms.h"

namespace cairn {

// All ranks together, before training.
void CheckpointSaver::Impl::begin_tars(const State& state) {
  if (options.weights_only) {
    throw UnsupportedError(
        "weights_only (save_weights_only) does not go with deepspeed_config: a rank has a part of "
        "the weights only. Save the whole state; `cairn convert` makes a file of weights of all "
        "ranks' tars");
  }
  if (has_uploads) {
    throw UnsupportedError(
        "deepspeed_config: the ranks' tars are not uploaded by loggers: set remote_file_name to "
        "nullopt, leave the logger out, or let save_folder be the store, as "
        "s3://bucket/{run_name}");
  }
  require_rank(options.filename);
  if (!has_counter(NameFormat(options.filename))) {
    throw UsageError(
        "\"" + options.filename +
        "\" is the same name at every save, and the ranks' tars cannot all be replaced at once: a "
        "rank that dies meanwhile would leave no save of which every rank has its file. Put a "
        "counter into it: ep{epoch}-ba{batch}-rank{rank}.tar, say, with "
        "save_num_checkpoints_to_keep for how many there are");
  }
  options.filename = as_tar_format(options.filename);
  if (options.latest_filename) {
    require_rank(*options.latest_filename);
    options.latest_filename = as_tar_format(*options.latest_filename);
  }
  check_names(options, dist_variables(state.run_name));
  check_rank_tars(state);
  has_tars = true;
  if (!ranks) ranks = std::make_unique<RankSaves>();
}

// All ranks have the same errors here.
void CheckpointSaver::Impl::save_tar(State& state, Logger& logger, bool is_asked) {
  wait();  // for what the save before came to
  report(logger);
  last_checkpoint_batch = state.timestamp.batch;
  if (!saves_anything()) return;
  const std::string where = path(state, options.filename);
  bool overwrite = false;
  Team::of_job().together("before saving " + where, [&] {
    if (is_asked) prepare(state);
    look_at_name(state);
    clear_names(where, latest_path(state), state.run_name);
    const bool is_own = saved.is_saved_here(where, state.timestamp);
    overwrite = replaceable.erase(where) > 0 || !is_far || options.overwrite || is_own;
  });
  SaveJob job = next_job(state);
  try {
    ranks->fill_tar(job, state,
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
