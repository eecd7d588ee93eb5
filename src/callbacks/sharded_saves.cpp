// Step 8 of checkpoint_saver.cpp: sharded checkpoints, which all ranks write together.
#include <exception>

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

// All ranks have the same errors here, also of what only rank 0 does. `is_asked`: by the program.
void CheckpointSaver::Impl::save_over_ranks(State& state, Logger& logger, bool is_asked) {
  if (has_tars) return save_tar(state, logger, is_asked);
  wait();  // for what the save before came to
  report(logger);
  last_checkpoint_batch = state.timestamp.batch;
  if (!saves_anything()) return;
  std::exception_ptr failed;
  std::string why;
  std::string where = path(state, options.filename);
  bool overwrite = !is_far || options.overwrite || saved.is_saved_here(where, state.timestamp);
  if (!is_written_elsewhere()) {
    try {
      const dist::LongWork long_work;
      if (is_asked) prepare(state);
      clear_way(where);
    } catch (const std::exception& e) {
      failed = std::current_exception();
      why = e.what();
    }
    overwrite = replaceable.erase(where) > 0 || overwrite;
  }
  if (is_of_several()) {
    const Value said = dist::broadcast_value(List{where, overwrite, why});
    where = said.as_items().at(0).as_str();
    overwrite = said.as_items().at(1).as_bool();
    why = said.as_items().at(2).as_str();
  }
  if (failed) std::rethrow_exception(failed);
  if (!why.empty()) throw StorageError("rank 0: before saving " + where + ": " + why, 0);
  SaveJob job = next_job(state);
  job.path = where;
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
