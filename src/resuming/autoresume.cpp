#include "resuming/autoresume.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "cairn/callbacks/checkpoint_saver.h"
#include "cairn/checkpoint/names.h"
#include "cairn/dist/dist.h"
#include "cairn/error.h"
#include "cairn/train/logger.h"
#include "cairn/train/state.h"

#include "checkpoint/open/source.h"
#include "core/text/few_lines.h"
#include "core/text/printable.h"
#include "dist/team.h"
#include "io/file.h"
#include "io/read_fault.h"
#include "resuming/joint_checkpoints.h"
#include "resuming/load_path.h"
#include "resuming/rank_tar_loads.h"
#include "resuming/search_places.h"
#include "train/state/gather/rank_saves.h"
#include "train/state/gather/sharded_state.h"
#include "train/state/load/load_advice.h"
#include "train/state/load/load_job.h"

namespace cairn {
namespace {

// Counts the checkpoints of other runs in this run's folders.
class OtherRuns {
 public:
  void add(const SearchPlace& place, const std::string& run_name) {
    Seen& seen = by_folder_[place.folder];
    ++seen.checkpoints;
    seen.names.insert("\"" + printable_line(run_name) + "\"");
  }
  bool any() const { return !by_folder_.empty(); }

  void log(const std::string& run_name, Logger& logger) const {
    for (const auto& [folder, seen] : by_folder_) {
      logger.log_message(fmt::format(
          "warning: autoresume passed over {} checkpoint{} in {} of other runs ({}): this one is "
          "\"{}\"",
          seen.checkpoints, seen.checkpoints == 1 ? "" : "s", folder, fmt::join(seen.names, ", "),
          run_name));
    }
  }

 private:
  struct Seen {
    std::size_t checkpoints = 0;
    std::set<std::string> names = {};
  };
  std::map<std::string, Seen> by_folder_;
};

// The checkpoint that rank 0 found, for all ranks.
struct FoundForAll {
  std::optional<LoadJob> job = std::nullopt;
  std::size_t place = 0;     // The number of the place that has the checkpoint.
  bool is_rank_tar = false;  // `job` is rank 0's part of a save of all ranks.
};

// Does steps 2 to 4 of autoresume.h without loading. Throws StorageError if a place cannot be read:
// it may hold a checkpoint, so beginning anew would be wrong. Throws UsageError if beginning anew
// would lose something.
FoundForAll find_newest(const TrainerOptions& trainer, const RunSearch& search, Logger& logger) {
  OtherRuns others;
  RunSearch told = search;
  FewLines skipped;
  told.on_skip = [&](const std::string& path, const std::string& why) {
    if (!skipped.take()) return;
    logger.log_message("warning: autoresume skipped " + printable_line(path) + ": " +
                       without_path(why, printable_line(path)));
  };
  told.on_other_run = [&others](const SearchPlace& place, const std::string& /*path*/,
                                const std::string& whose) { others.add(place, whose); };
  const RunAnswer answer = search_run(told);
  if (skipped.left_out() > 0) {
    logger.log_message("warning: autoresume skipped " + std::to_string(skipped.left_out()) +
                       " more; `cairn resume --explain` names them all");
  }
  others.log(search.places.front().run_name, logger);
  if (!answer.refusal.empty()) throw UsageError("autoresume: " + answer.refusal);
  if (!answer.found && search.takes_rank_tars) return {};  // Each rank looks for its own tar.
  if (!answer.found) {
    std::string folders;
    for (const SearchPlace& place : search.places) {
      folders += (folders.empty() ? "" : ", ") + place.folder;
    }
    logger.log_message("autoresume: no checkpoint" +
                       std::string(others.any() ? " of this run in " : " in ") + folders +
                       (trainer.load_path ? "; loading load_path" : "; starting afresh"));
    return {};
  }
  const FoundCheckpoint& found = *answer.found;
  const auto& store = search.places[answer.place].store;
  if (!answer.is_rank_tar) {  // Otherwise each rank reports its own tar.
    logger.log_message("autoresume: going on from " + printable_line(store->describe(found.path)) +
                       " (" + position_text(found.timestamp) + ")");
  }
  return {.job = LoadJob{.path = found.path,
                         .checkpoint = found.checkpoint,
                         .options = {.strict_model_weights = trainer.load_strict_model_weights,
                                     .store = store,
                                     .in_place = trainer.load_in_place}},
          .place = answer.place,
          .is_rank_tar = answer.is_rank_tar};
}

// Rank 0 searches, and all ranks load the checkpoint that it found. Rank 0 names the place by its
// number. If each rank has its own folder, rank 0 names the checkpoint by its path relative to the
// folder.
FoundForAll find_for_all(const TrainerOptions& trainer, const RunSearch& search, Logger& logger) {
  const Team team = Team::of_job();
  const std::vector<SearchPlace>& places = search.places;
  const std::string folder = normal_path(places.front().folder);
  FoundForAll own;
  const Value found = team.do_on_first("looking for a checkpoint to go on from", [&]() -> Value {
    own = find_newest(trainer, search, logger);
    if (team.is_alone() || !own.job) return List{-1, "", "", own.is_rank_tar};
    // The checkpoint may be copied for this machine's processes.
    own.job->content = content_of(*own.job);
    const std::string path = places.at(own.place).is_in_parts
                                 ? relative_path(normal_path(own.job->path), folder)
                                 : own.job->path;
    return List{static_cast<std::int64_t>(own.place), path, own.job->content, own.is_rank_tar};
  });
  if (team.is_first()) return own;
  const List& said = found.as_items();
  const std::int64_t number = said.at(0).as_int();
  if (number < 0) return {.is_rank_tar = said.at(3).as_bool()};
  std::string path = said.at(1).as_str();
  if (number >= static_cast<std::int64_t>(places.size())) {
    throw UsageError("autoresume: rank 0 goes on from " + printable_line(path) +
                     ", which is kept by a logger that this rank does not have. Give all ranks the "
                     "same loggers");
  }
  const SearchPlace& place = places.at(static_cast<std::size_t>(number));
  if (place.is_in_parts) path = join_path(folder, path);
  return {.job = LoadJob{.path = path,
                         .content = said.at(2).as_str(),
                         .options = {.strict_model_weights = trainer.load_strict_model_weights,
                                     .store = place.store,
                                     .in_place = trainer.load_in_place}},
          .is_rank_tar = said.at(3).as_bool()};
}

// Called when no checkpoint is left to resume from. Each rank has read its own rows, so ranks may
// have failed differently. Throws on all ranks if one of them has an error that forbids beginning
// anew. Also throws if machines have parts of checkpoints and no checkpoint is whole.
void agree_to_begin(const std::exception_ptr& own, const JointCheckpoints* joint) {
  RankOutcome outcome;
  try {
    if (own) std::rethrow_exception(own);
  } catch (const std::exception& e) {
    outcome = {RankOutcome::kFailed, e.what()};
  }
  const AgreedOutcome agreed = agree_on_outcome(outcome);
  if (own && agreed.rank == dist::rank()) std::rethrow_exception(own);
  if (agreed.outcome.kind != RankOutcome::kOk) {
    throw RankError("rank " + std::to_string(agreed.rank) + ": " + agreed.outcome.why);
  }
  if (joint != nullptr && !joint->why_none_is_whole().is_good()) {
    throw_verdict(joint->why_none_is_whole(), "autoresume");
  }
}

}  // namespace

void require_findable(const CheckpointSaver& saver) {
  const CheckpointSaverOptions& options = saver.options();
  if (!options.latest_filename) {
    throw UsageError(
        "autoresume needs latest_filename of the CheckpointSaver: the link that marks the newest "
        "checkpoint");
  }
  const char* const mlflow_run = std::getenv("MLFLOW_RUN_ID");
  if (options.folder.find("{mlflow_run_id}") != std::string::npos &&
      (mlflow_run == nullptr || *mlflow_run == 0)) {
    throw UsageError(
        "autoresume needs MLFLOW_RUN_ID in the environment, because the folder has "
        "{mlflow_run_id}. Without the variable every start makes a new run with an empty folder");
  }
}

namespace {

// Finds and loads a checkpoint, and goes back to an older one if it cannot be loaded.
class Autoresume {
 public:
  Autoresume(const TrainerOptions& options, State& state, const CheckpointSaver& saver,
             Logger& logger)
      : options_(options),
        state_(state),
        saver_(saver),
        logger_(logger),
        progress_(progress_of(options)),
        search_({.places = search_places(saver, state, logger),
                 .takes_rank_tars = saves_rank_tars(state),
                 .may_begin_anew = options.autoresume_may_begin_anew}) {}

  LoadOutcome run() {
    for (SearchPlace& place : search_.places) {
      place.store = patient_store(progress_.watch(place.store),
                                  {options_.save_store_patience, "save_store_patience"}, logger_);
    }
    SearchPlace& first = search_.places.front();
    if (!search_.takes_rank_tars && JointCheckpoints::is_needed(*first.store)) {
      joint_ = JointCheckpoints::in_folder(first, search_.places.size() > 1, logger_);
      first.store = joint_->store();
      first.is_in_parts = true;
    }
    for (;;) {
      FoundForAll found = find_for_all(options_, search_, logger_);
      if (!found.job || found.is_rank_tar) return load_without_checkpoint();
      found.job->weights_are_lost = &weights_are_lost_;
      const bool is_joint = joint_ && found.job->options.store == joint_->store();
      if (is_joint) found.job->joint = joint_->store();
      if (auto outcome = load(*found.job)) return *outcome;
    }
  }

 private:
  // Called when no checkpoint is left that all ranks could load together. If the run saves a tar
  // per rank, each rank then loads its own tar.
  LoadOutcome load_without_checkpoint() {
    if (mixed_) throw RankError(*mixed_);
    // Beginning anew would abandon a checkpoint that a repaired disk may still deliver.
    agree_to_begin(unreadable_ ? unreadable_ : lost_, joint_.get());
    return search_.takes_rank_tars ? resume_rank_tars(options_, state_, saver_, logger_)
                                   : load_from_load_path(options_, state_, logger_);
  }

  // nullopt: the checkpoint is passed over.
  std::optional<LoadOutcome> load(const LoadJob& job) {
    const NodeCopy copy = copy_for_node(job, state_, progress_, logger_);
    TriedLoad tried = load_together(
        [&] { return load_for_run(job, copy.nearest(), state_, progress_, logger_); });
    if (tried.is_ok()) {
      tried.outcome.resumed_from = place_of(job);
      return tried.outcome;
    }
    if (tried.own.kind == RankOutcome::kFailed) rethrow_with_advice(tried.error, job);
    const bool is_bad_file = tried.agreed.outcome.kind == RankOutcome::kBadFile;
    // If each rank has read only its own rows, the rows of other ranks may be bad.
    const bool may_pass_over = !tried.agreed.is_ok_anywhere || is_sharded(state_);
    if (!is_bad_file || !may_pass_over) throw tried.error_of_rank(job.path);
    if (tried.agreed.is_ok_anywhere) mixed_ = tried.error_of_rank(job.path);
    if (tried.error) {
      keep(tried.error);
      pass_over(job, ", which cannot be loaded", tried.own.why);
    } else {
      weights_are_lost_ = true;
      pass_over(job, "", mixed_->what());
    }
    return std::nullopt;
  }

  // Keeps an error that must be thrown instead of beginning anew.
  void keep(const std::exception_ptr& error) {
    try {
      std::rethrow_exception(error);
    } catch (const Error& e) {
      if (read_fault_of(e) == ReadFault::kBytes && !unreadable_) unreadable_ = error;
    }
    if (weights_are_lost_ && !lost_) lost_ = error;
  }

  // The checkpoint's place, in the form that load_path takes.
  static std::string place_of(const LoadJob& job) { return job.options.store->describe(job.path); }

  [[noreturn]] static void rethrow_with_advice(const std::exception_ptr& error,
                                               const LoadJob& job) {
    try {
      std::rethrow_exception(error);
    } catch (MismatchError& e) {
      e.add_context("autoresume takes a checkpoint whole (to leave parts of it out, " +
                    one_start_without_autoresume(place_of(job)) + " and load_ignore_keys)");
      throw;
    }
  }

  void pass_over(const LoadJob& job, const std::string& what, const std::string& why) {
    logger_.log_message("warning: autoresume skipped " + printable_line(job.path) + what + ": " +
                        printable_line(why));
    search_.except.push_back({job.options.store, job.path, printable_line(why)});
  }

  const TrainerOptions& options_;
  State& state_;
  const CheckpointSaver& saver_;
  Logger& logger_;
  LoadProgress progress_;
  RunSearch search_;
  std::unique_ptr<JointCheckpoints> joint_;
  std::exception_ptr unreadable_;  // From the first checkpoint that the disk failed to deliver.
  std::exception_ptr lost_;        // From the first failed load that cost the weights.
  bool weights_are_lost_ = false;
  std::optional<RankError> mixed_;  // Some ranks have loaded what others could not.
};

}  // namespace

LoadOutcome autoresume(const TrainerOptions& options, State& state, const CheckpointSaver& saver,
                       Logger& logger) {
  return Autoresume(options, state, saver, logger).run();
}

}  // namespace cairn
