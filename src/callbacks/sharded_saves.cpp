// Step 8 of checkpoint_saver.cpp: sharded checkpoints, which all ranks write together.
#include <exception>

#include "cairn/error.h"

#include "callbacks/checkpoint_saver_impl.h"
#include "dist/group.h"
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

// What rank 0 has done in its folder, in those of machines without a file system in common.
void CheckpointSaver::Impl::prepare_machines(const State& state, Logger& logger) const {
  if (!is_of_several() || dist::count_machines() == 1) return;
  dist::barrier("looking for what killed saves left");  // who has one has looked by now
  if (!ranks->is_first_of_another_machine()) return;
  options.store->prepare(writers_folder(state));
  remove_leftovers(state, logger);
}

// Of another rank than 0, which says where, and what becomes superfluous.
SaveJob CheckpointSaver::Impl::job_of_part(const State& state, const std::string& where,
                                           const List& superfluous) {
  SaveJob job = next_job(state);
  job.path = where;
  job.latest.clear();
  job.remove_afterwards.clear();
  for (const Value& old : superfluous) {
    const std::string old_path = join_path(writers_folder(state), old.as_str());
    if (!is_far) job.remove_afterwards.push_back(old_path);
    saved.remove(old_path);
  }
  return job;
}

// All ranks have the same errors here, also of what only rank 0 does. `is_asked`: by the program.
void CheckpointSaver::Impl::save_over_ranks(State& state, Logger& logger, bool is_asked) {
  wait();  // for what the save before came to
  report(logger);
  last_checkpoint_batch = state.timestamp.batch;
  if (!saves_anything()) return;
  std::exception_ptr failed;
  std::string why;
  std::string where = path(state, options.filename);
  // Of each rank; rank 0 says the names in it.
  const std::string home = writers_folder(state);
  const auto name_of = [&](const std::string& place) {
    return relative_path(normal_path(place), normal_path(home));
  };
  bool overwrite = !is_far || options.overwrite || saved.is_saved_here(where, state.timestamp);
  std::optional<SaveJob> job;
  List superfluous;
  if (!is_written_elsewhere()) {
    try {
      const dist::LongWork long_work;
      if (is_asked) prepare(state);
      clear_way(where);
      job = next_job(state);
      for (const std::string& old : job->remove_afterwards) {
        superfluous.emplace_back(name_of(old));
      }
    } catch (const std::exception& e) {
      failed = std::current_exception();
      why = e.what();
    }
    overwrite = replaceable.erase(where) > 0 || overwrite;
  }
  if (is_of_several()) {
    const Value said =
        dist::broadcast_value(List{name_of(where), overwrite, why, std::move(superfluous)});
    where = join_path(home, said.as_items().at(0).as_str());
    superfluous = said.as_items().at(3).as_items();
    overwrite = said.as_items().at(1).as_bool();
    why = said.as_items().at(2).as_str();
  }
  if (failed) std::rethrow_exception(failed);
  if (!why.empty()) throw StorageError("rank 0: before saving " + where + ": " + why, 0);
  if (!job) job = job_of_part(state, where, superfluous);
  try {
    ranks->fill(*job, state,
                {.weights_only = options.weights_only, .ignore_keys = options.ignore_keys},
                overwrite, &logger);
    submit(std::move(*job));
  } catch (...) {
    forget_failed();
    throw;
  }
  report(logger);
}

}  // namespace cairn
