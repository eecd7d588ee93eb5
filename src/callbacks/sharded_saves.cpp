// Step 8 of checkpoint_saver.cpp: sharded checkpoints, which all ranks write together.
#include <exception>

#include "cairn/error.h"
#include "cairn/train/logger.h"

#include "callbacks/checkpoint_saver_impl.h"
#include "callbacks/remote_folder.h"
#include "checkpoint/names/run_forms.h"
#include "dist/group.h"
#include "storage/local_store.h"
#include "train/state/checkpoint_info.h"

namespace cairn {

namespace {

// Of each logger that keeps files. nullopt where one does not say where it keeps them.
std::optional<std::vector<RemoteFolder>> folders_of_loggers(const CheckpointSaverOptions& options,
                                                            const State& state,
                                                            const Logger& logger) {
  std::vector<RemoteFolder> folders;
  if (!is_local(*options.store) || !options.remote_file_name) return folders;
  for (const auto& destination : logger.destinations()) {
    if (!destination->can_upload_files()) continue;
    auto folder = remote_folder_of(*destination, options, state.run_name);
    if (!folder) return std::nullopt;
    folders.push_back(std::move(*folder));
  }
  return folders;
}

// Each rank sends its own files: an error on all of them unless all have the same loggers.
void check_loggers(const std::optional<std::vector<RemoteFolder>>& own) {
  std::vector<std::int64_t> counts;
  for (const Value& count : Team::of_job().of_all(own ? std::ssize(*own) : -1))
    counts.push_back(count.as_int());
  for (std::size_t rank = 0; rank < counts.size(); ++rank) {
    if (counts[rank] < 0) {
      throw UnsupportedError(
          "sharded checkpoints (state_dict_type \"sharded\") go only to loggers that say where "
          "they keep files (place_of()), as RemoteUploaderDownloader does. Let save_folder be the "
          "place itself, as s3://bucket/{run_name}, or take state_dict_type \"full\"");
    }
    if (counts[rank] == counts[0]) continue;
    throw UsageError("sharded checkpoints: rank " + std::to_string(rank) + " has " +
                     std::to_string(counts[rank]) + " loggers that keep files, and rank 0 has " +
                     std::to_string(counts[0]) +
                     ". Each rank sends its own part: give all ranks the same loggers");
  }
}

// What is rank 0's holds for all, each with a store of its own: in folders that are called after
// the rank, or its machine, nobody would find the parts of the others.
void take_names_of_rank_zero(std::vector<RemoteFolder>& folders) {
  List names;
  for (const RemoteFolder& folder : folders)
    names.emplace_back(List{folder.folder, folder.filename.text(), folder.latest_filename.text()});
  const Value said = Team::of_job().of_first(std::move(names));
  for (std::size_t i = 0; i < folders.size(); ++i) {
    const List& place = said.as_items().at(i).as_items();
    folders[i].folder = place.at(0).as_str();
    folders[i].filename = NameFormat(place.at(1).as_str());
    folders[i].latest_filename = NameFormat(place.at(2).as_str());
  }
}

// Of a saver in `folder`, where the saver with `options` saves, too.
CheckpointSaverOptions options_elsewhere(CheckpointSaverOptions options, RemoteFolder folder) {
  options.store = std::move(folder.store);
  options.folder = NameFormat::of_name(folder.folder).text();
  options.filename = folder.filename.text();
  options.latest_filename.reset();
  if (!folder.latest_filename.empty()) options.latest_filename = folder.latest_filename.text();
  options.remote_file_name.reset();
  options.latest_remote_file_name.reset();
  options.num_checkpoints_to_keep = options.num_remote_checkpoints_to_keep;
  options.num_concurrent_uploads = 1;
  options.max_pending_saves = 1;
  return options;
}

}  // namespace

// All ranks together, before training.
void CheckpointSaver::Impl::begin_sharded(State& state, Logger& logger) {
  options.filename = as_folder_format(options.filename, state.sharded_ckpt_prefix_dir);
  if (options.remote_file_name) {
    options.remote_file_name =
        as_folder_format(*options.remote_file_name, state.sharded_ckpt_prefix_dir);
  }
  check_names(options, dist_variables(state.run_name));
  if (!ranks) ranks = std::make_unique<RankSaves>();
  has_uploads = false;
  auto folders = folders_of_loggers(options, state, logger);
  check_loggers(folders);
  take_names_of_rank_zero(*folders);
  for (const RemoteFolder& folder : *folders) {
    elsewhere.push_back(std::make_unique<CheckpointSaver>(options_elsewhere(options, folder)));
    if (may_rewrite_own) elsewhere.back()->rewrite_own_files();
    elsewhere.back()->init(state, logger);
  }
}

// What rank 0 has done in its folder, in those of machines without a file system in common.
void CheckpointSaver::Impl::prepare_machines(const State& state, Logger& logger) const {
  if (Team::of_job().is_alone() || dist::count_machines() == 1) return;
  dist::barrier("looking for what killed saves left");  // who has one has looked by now
  Team::of_job().together("preparing " + writers_folder(state), [&] {
    if (!ranks->is_first_of_another_machine()) return;
    options.store->prepare(writers_folder(state));
    remove_leftovers(state, logger);
  });
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
// What fails in one place costs the others nothing: the first error is thrown in the end.
void CheckpointSaver::Impl::save_over_ranks(State& state, Logger& logger, bool is_asked,
                                            const List& needed) {
  check_replicas(state);
  if (has_tars) return save_tar(state, logger, is_asked);
  wait();  // for what the save before came to
  report(logger);
  last_checkpoint_batch = state.timestamp.batch;
  std::exception_ptr failed;
  const auto save_in = [&](Impl& place) {
    try {
      place.save_here_over_ranks(state, logger, is_asked);
    } catch (const dist::DistError&) {
      throw;  // the ranks do not find each other any more
    } catch (const std::exception& e) {
      if (failed) messages.push_back(std::string("warning: ") + e.what());
      if (!failed) failed = std::current_exception();
    }
  };
  const auto is_needed = [&](std::size_t place) {
    return needed.empty() || needed.at(place).as_bool();
  };
  if (saves_here() && is_needed(0)) save_in(*this);
  for (std::size_t i = 0; i < elsewhere.size(); ++i) {
    Impl& other = *elsewhere[i]->impl_;
    if (!is_asked && other.last_checkpoint_batch == last_checkpoint_batch) continue;  // has it
    if (!is_needed(1 + i)) continue;
    other.last_checkpoint_batch = last_checkpoint_batch;
    save_in(other);
  }
  if (failed) std::rethrow_exception(failed);
  report(logger);
}

void CheckpointSaver::Impl::save_here_over_ranks(State& state, Logger& logger, bool is_asked) {
  std::string where = path(state, options.filename);
  // Of each rank; rank 0 says the names in it.
  const std::string home = writers_folder(state);
  const auto name_of = [&](const std::string& place) {
    return relative_path(normal_path(place), normal_path(home));
  };
  const Team team = Team::of_job();
  std::optional<SaveJob> job;
  const Value plan = team.do_on_first("before saving " + where, [&]() -> Value {
    const bool is_own = saved.is_saved_here(where, state.timestamp);
    if (is_asked) prepare(state);
    look_at_name(state);
    clear_names(where, latest_path(state), state.run_name);
    job = next_job(state);
    List superfluous;
    for (const std::string& old : job->remove_afterwards)
      superfluous.emplace_back(name_of(old));
    const bool overwrite = replaceable.erase(where) > 0 || !is_far || options.overwrite || is_own;
    return List{name_of(where), overwrite, std::move(superfluous)};
  });
  where = join_path(home, plan.as_items().at(0).as_str());
  const bool overwrite = plan.as_items().at(1).as_bool();
  const List& superfluous = plan.as_items().at(2).as_items();
  if (!job) job = job_of_part(state, where, superfluous);
  try {
    // One rank may take its time (a dataset's state_dict(), a callback's): the threads that save on
    // the others would give it up.
    team.together("gathering the state for " + where, [&] {
      ranks->fill(
          *job, state, {.weights_only = options.weights_only, .ignore_keys = options.ignore_keys},
          {.overwrite = overwrite, .puts_aside = may_rewrite_own || options.overwrite}, &logger);
    });
    submit(std::move(*job));
  } catch (...) {
    forget_failed();
    throw;
  }
}

}  // namespace cairn
