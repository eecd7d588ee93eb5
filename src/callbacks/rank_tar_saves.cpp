// Step 10 of checkpoint_saver.cpp: checkpoints that are a tar of each rank.
#include <exception>

#include "cairn/error.h"

#include "callbacks/checkpoint_saver_impl.h"

namespace cairn {

// All ranks together, before training.
void CheckpointSaver::Impl::begin_tars(const State& state) {
  if (options.weights_only) {
    throw UnsupportedError(
        "weights_only (save_weights_only) does not go with deepspeed_config: a rank has a part of "
        "the weights only. Save the whole state; `cairn convert` makes a file of weights of all "
        "ranks' tars");
  }
  if (is_far) {
    throw UnsupportedError(
        "deepspeed_config: the ranks' tars are saved in folders of their machines, and " +
        options.store->describe(options.folder) +
        " is a store: give a folder, or take parallelism_config with state_dict_type \"sharded\", "
        "which saves into stores");
  }
  if (has_uploads) {
    throw UnsupportedError(
        "deepspeed_config: the ranks' tars are not uploaded by loggers: set remote_file_name to "
        "nullopt, leave the logger out, or take parallelism_config");
  }
  require_rank(options.filename);
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

// What fails on one rank fails on all, with its number: nobody waits for it then.
void CheckpointSaver::Impl::agreed(const std::string& doing,
                                   const std::function<void()>& act) const {
  if (!has_tars || !is_of_several()) return act();
  std::exception_ptr failed;
  std::string why;
  try {
    act();
  } catch (const std::exception& e) {
    failed = std::current_exception();
    why = e.what();
  }
  const auto all = dist::all_gather_values(List{failed != nullptr, why});
  if (failed) std::rethrow_exception(failed);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (!all[rank].as_items().at(0).as_bool()) continue;
    throw StorageError(
        "rank " + std::to_string(rank) + ", " + doing + ": " + all[rank].as_items().at(1).as_str(),
        0);
  }
}

// All ranks have the same errors here.
void CheckpointSaver::Impl::save_tar(State& state, Logger& logger, bool is_asked) {
  wait();  // for what the save before came to
  report(logger);
  last_checkpoint_batch = state.timestamp.batch;
  if (!saves_anything()) return;
  const std::string where = path(state, options.filename);
  agreed("before saving " + where, [&] {
    if (is_asked) prepare(state);
    clear_way(where);
  });
  SaveJob job = next_job(state);
  try {
    ranks->fill_tar(job, state,
                    {.weights_only = options.weights_only, .ignore_keys = options.ignore_keys},
                    /*overwrite=*/true, &logger);
    submit(std::move(job));
  } catch (...) {
    forget_failed();
    throw;
  }
  report(logger);
}

}  // namespace cairn
