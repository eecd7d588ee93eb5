#include "resuming/resume.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <iostream>
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

#include "checkpoint/names/launch.h"
#include "checkpoint/open/checkpoint.h"
#include "checkpoint/open/source.h"
#include "core/text/few_lines.h"
#include "core/text/printable.h"
#include "dist/team.h"
#include "io/file.h"
#include "io/read_fault.h"
#include "resuming/joint_checkpoints.h"
#include "resuming/load_progress.h"
#include "resuming/node_copy.h"
#include "resuming/rank_tar_loads.h"
#include "resuming/ranks.h"
#include "resuming/search_places.h"
#include "saving/check_savers.h"
#include "storage/local/links.h"
#include "storage/place.h"
#include "storage/retrying_store.h"
#include "train/state/gather/rank_saves.h"
#include "train/state/gather/sharded_state.h"
#include "train/state/load/load_advice.h"
#include "train/state/load/load_job.h"

namespace cairn {
namespace {

std::string position_text(const Timestamp& timestamp) {
  return "epoch " + std::to_string(timestamp.epoch) + ", batch " + std::to_string(timestamp.batch);
}

// Counts checkpoints of other runs that lie in this run's folders.
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

}  // namespace

bool is_fault_of_file(const Error& error) {
  const bool is_of_program = dynamic_cast<const MismatchError*>(&error) != nullptr ||
                             dynamic_cast<const UsageError*>(&error) != nullptr;
  return !is_of_program && read_fault_of(error) != ReadFault::kNow;
}

namespace {

// An error of another rank, thrown on this one.
class RankError : public StorageError {
 public:
  explicit RankError(const std::string& message) : StorageError(message, 0) {}
};

// The checkpoint that rank 0 found, for all ranks.
struct FoundForAll {
  std::optional<LoadJob> job = std::nullopt;
  bool is_rank_tar = false;  // `job` is rank 0's part of a save of all ranks
};

// Steps 2 to 4, except loading. StorageError if a place cannot be read: it may hold a checkpoint,
// and starting over would be wrong. UsageError if starting over would lose something.
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
  if (!answer.found && search.takes_rank_tars) return {};  // each rank looks for its own
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
  if (!answer.is_rank_tar) {  // otherwise each rank reports its own tar
    logger.log_message("autoresume: going on from " + printable_line(store->describe(found.path)) +
                       " (" + position_text(found.timestamp) + ")");
  }
  return {.job = LoadJob{.path = found.path,
                         .checkpoint = found.checkpoint,
                         .options = {.strict_model_weights = trainer.load_strict_model_weights,
                                     .store = store,
                                     .in_place = trainer.load_in_place}},
          .is_rank_tar = answer.is_rank_tar};
}

// CheckpointSource::content() of what rank 0 opened; empty when it opened nothing.
std::string content_of(const LoadJob& job) {
  return job.checkpoint ? Checkpoint::Impl::source_of(*job.checkpoint).content() : "";
}

// Rank 0 looks, and all ranks load the checkpoint that it found. Rank 0 names the place by its
// number. Where each rank has a folder of its own, it names the checkpoint by its path from there.
FoundForAll find_for_all(const TrainerOptions& trainer, const RunSearch& search, Logger& logger) {
  const Team team = Team::of_job();
  const std::vector<SearchPlace>& places = search.places;
  const std::string folder = normal_path(places.front().folder);
  FoundForAll own;
  const Value found = team.do_on_first("looking for a checkpoint to go on from", [&]() -> Value {
    own = find_newest(trainer, search, logger);
    if (team.is_alone() || !own.job) return List{-1, "", "", own.is_rank_tar};
    const auto place = std::ranges::find(places, own.job->options.store, &SearchPlace::store);
    const std::int64_t number = place - places.begin();
    own.job->content = content_of(*own.job);  // it may be copied for the processes of this machine
    const std::string path =
        place->is_in_parts ? relative_path(normal_path(own.job->path), folder) : own.job->path;
    return List{number, path, own.job->content, own.is_rank_tar};
  });
  if (team.is_first()) return own;
  const List& said = found.as_items();
  const std::int64_t number = said.at(0).as_int();
  if (number < 0) return {.is_rank_tar = said.at(3).as_bool()};
  std::string path = said.at(1).as_str();
  if (number >= static_cast<std::int64_t>(places.size())) {
    throw UsageError("autoresume: rank 0 goes on from " + printable_line(path) +
                     ", which a logger keeps that this rank does not have: give all ranks the same "
                     "loggers");
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

// What a pointer of that name points at for rank 0, in the folder, which others may have under
// another name: a run that still saves moves its `latest` while they open it. `path` where there is
// no pointer, or one that leads out of the folder.
std::string pointed_at_for_all(const std::string& path, ObjectStore& store) {
  const Team team = Team::of_job();
  if (team.is_alone()) return path;
  const std::string name =
      team.do_on_first("opening " + path,
                       [&]() -> Value {
                         try {
                           const bool is_file = path.ends_with(kLinkFile);  // people name that, too
                           const auto pointer = store.read_pointer(
                               is_file ? path.substr(0, path.size() - kLinkFile.size()) : path);
                           if (!pointer || pointer->is_broken()) return "";
                           return relative_path(normal_path(pointer->target),
                                                normal_path(parent_path(path)));
                         } catch (const std::exception&) {
                           return "";  // opening it says what is wrong, for all
                         }
                       })
          .as_str();
  if (name.empty() || name.starts_with("..")) return path;
  return path.find('/') == std::string::npos ? name : join_path(parent_path(path), name);
}

LoadProgress progress_of(const TrainerOptions& options) {
  return LoadProgress(
      {.is_shown = options.load_progress_bar,
       .chunk_bytes = options.load_chunk_size.value_or(0),
       .stream = options.console_stream == ConsoleStream::kStdout ? &std::cout : &std::cerr});
}

// The store as a start asks it: again and again while it is away, with a line each time.
std::shared_ptr<ObjectStore> patient_store(std::shared_ptr<ObjectStore> store,
                                           const TrainerOptions& options, Logger& logger) {
  if (!store->may_be_far()) return store;
  return retrying_store(std::move(store),
                        {.patience = options.save_store_patience,
                         .patience_option = "save_store_patience",
                         .on_retry = told_by_lines(
                             [&logger](const std::string& line) { logger.log_message(line); })});
}

NodeCopy copy_for_node(const LoadJob& job, const State& state, LoadProgress& progress,
                       Logger& logger) {
  const auto bar = progress.show(job.path);
  return {job, is_sharded(state), logger};
}

}  // namespace

LoadOutcome load_for_run(const LoadJob& job, const LoadJob& nearest, State& state,
                         LoadProgress& progress, Logger& logger) {
  const dist::LongWork long_work;
  const std::string run_name = state.run_name;
  LoadOutcome outcome{.is_loaded = true};
  if (job.joint != nullptr) outcome.path_of_parts = job.path;
  {
    const auto bar = progress.show(job.path);
    outcome.rng = load_now(nearest, state, logger);
  }
  // A run that starts from another one's checkpoint is itself, and keeps its hands off the other's.
  if (std::exchange(state.run_name, run_name) != run_name) {
    for (CheckpointSaver* saver : savers_among(state.callbacks)) {
      saver->load_state_dict(Dict());
    }
  }
  logger.log_message(
      "loaded " + printable_line(job.path) +
      (job.options.load_weights_only ? " (weights)" : ": " + position_text(state.timestamp)));
  return outcome;
}

namespace {

// What becomes of a checkpoint on all ranks, from what became of it on this one.
struct LoadedByAll {
  bool is_passed_over = false;
  // Passed over, and some have it: they must go on from another one.
  std::optional<RankError> mixed = std::nullopt;
};

// Throws when the start is to end. `in_parts`: each looked at its own rows.
LoadedByAll agree_to_load(const RankOutcome& own, const std::string& path, bool in_parts) {
  const AgreedOutcome agreed = agree_on(own);
  if (agreed.outcome.kind == RankOutcome::kOk) return {};
  if (own.kind == RankOutcome::kFailed) return {};  // the caller throws what it has
  const RankError error("rank " + std::to_string(agreed.rank) + " cannot load " +
                        printable_line(path) +
                        ", from which all ranks go on: " + agreed.outcome.why);
  const bool is_bad = agreed.outcome.kind == RankOutcome::kPassOver;
  if (is_bad && !agreed.is_ok_anywhere) return {.is_passed_over = true};
  if (is_bad && in_parts) return {.is_passed_over = true, .mixed = error};
  throw error;
}

// Rank 0 opens what load_path names, and what the others find there must be the same. (Another file
// may get the name meanwhile, or the place be another one on their machine.) Throws on all ranks
// when it cannot be opened: there would be nothing to compare with.
void open_for_all(LoadJob& job) {
  const Team team = Team::of_job();
  if (team.is_alone()) return;
  const Value content = team.do_on_first("opening " + printable_line(job.path), [&]() -> Value {
    job.checkpoint = open_checkpoint(job.path, job.options.store);
    return content_of(job);
  });
  job.content = content.as_str();
}

// Nothing is left to go on from. Throws on all ranks when one has what it cannot begin again with:
// each has read its own rows, and may have failed otherwise than the others. So it does when the
// machines have parts, and none that is whole.
void agree_to_begin(const std::exception_ptr& own, const JointCheckpoints* joint) {
  RankOutcome outcome;
  try {
    if (own) std::rethrow_exception(own);
  } catch (const std::exception& e) {
    outcome = {RankOutcome::kFailed, e.what()};
  }
  const AgreedOutcome agreed = agree_on(outcome);
  if (own && agreed.rank == dist::rank()) std::rethrow_exception(own);
  if (agreed.outcome.kind != RankOutcome::kOk) {
    throw RankError("rank " + std::to_string(agreed.rank) + ": " + agreed.outcome.why);
  }
  if (joint != nullptr && !joint->why_none_is_whole().is_good()) {
    throw_verdict(joint->why_none_is_whole(), "autoresume");
  }
}

}  // namespace

void check_autoresume(const std::optional<std::string>& run_name, const CheckpointSaver* first,
                      const CheckpointSaver* whole) {
  std::string missing;
  if (!run_name || run_name->empty()) missing += "\n  run_name: a restarted job must know its name";
  if (first == nullptr) {
    missing += "\n  save_folder, or a CheckpointSaver in callbacks: where its checkpoints are";
  } else if (whole == nullptr) {
    missing +=
        "\n  a saver of the whole state: nothing can go on from weights alone, or from what is not "
        "kept. Set weights_only (save_weights_only) to false and num_checkpoints_to_keep not to 0, "
        "or add a CheckpointSaver with another folder to callbacks";
  } else if (!whole->options().latest_filename) {
    missing += "\n  save_latest_filename: the link that marks the newest checkpoint";
  }
  const char* const mlflow_run = std::getenv("MLFLOW_RUN_ID");
  if (whole != nullptr && whole->options().folder.find("{mlflow_run_id}") != std::string::npos &&
      (mlflow_run == nullptr || *mlflow_run == 0)) {
    missing +=
        "\n  MLFLOW_RUN_ID: without it every start makes a run of its own, whose folder is "
        "empty";
  }
  if (!missing.empty()) throw UsageError("autoresume needs:" + missing);
}

void tell_unused_options(const TrainerOptions& options, const LoadOutcome& outcome,
                         Logger& logger) {
  const bool is_resumed = !outcome.resumed_from.empty();
  if (!is_resumed && options.load_path) return;
  std::vector<std::string_view> set;
  if (options.load_weights_only) set.emplace_back("load_weights_only");
  if (!options.load_ignore_keys.empty()) set.emplace_back("load_ignore_keys");
  if (!options.load_exclude_algorithms.empty()) set.emplace_back("load_exclude_algorithms");
  if (set.empty()) return;
  logger.log_message(fmt::format(
      "{} (of load_path) not used: {}", fmt::join(set, ", "),
      is_resumed ? "autoresume takes the run's own checkpoint whole" : "there is no load_path"));
}

LoadOutcome load_first(const TrainerOptions& options, State& state, Logger& logger) {
  if (!options.load_path) return {};
  if (loads_rank_tars(options, state)) return load_rank_tars(options, state, logger);
  const std::string path =
      strict_format(NameFormat(*options.load_path), variables_of_writer(state.run_name));
  LoadProgress progress = progress_of(options);
  const auto store =
      patient_store(progress.watch(store_of(path, options.load_object_store)), options, logger);
  // Weights alone are not worth the transfer of three times as much optimizer state.
  const bool is_dear = options.load_weights_only && store->may_be_far();
  LoadJob job = {.path = options.load_object_store ? path : shown_place(path),
                 .options = {.load_weights_only = options.load_weights_only,
                             .strict_model_weights = options.load_strict_model_weights,
                             .ignore_keys = options.load_ignore_keys,
                             .exclude_algorithms = options.load_exclude_algorithms,
                             .verify = is_dear ? Verify::kWhatIsRead : Verify::kFull,
                             .store = store,
                             .in_place = options.load_in_place}};
  job.path = pointed_at_for_all(job.path, *store);
  std::unique_ptr<JointCheckpoints> joint;
  if (JointCheckpoints::is_needed(*store)) {
    joint = JointCheckpoints::of_path(job.path, store);
    // If nobody has it, loading says best what is wrong.
    if (joint->store()->stat(joint->path(), /*follow=*/true)) {
      job.path = joint->path();
      job.options.store = joint->store();
      job.joint = joint->store();
    }
  }
  open_for_all(job);
  const NodeCopy copy = copy_for_node(job, state, progress, logger);
  try {
    LoadOutcome outcome = load_for_run(job, copy.nearest(), state, progress, logger);
    agree_to_load({}, job.path, /*in_parts=*/false);
    return outcome;
  } catch (const dist::DistError&) {
    throw;
  } catch (const RankError&) {
    throw;
  } catch (const Error& e) {
    agree_to_load({RankOutcome::kFailed, e.what()}, job.path, /*in_parts=*/false);
    throw;
  }
}

namespace {

// Finds and loads a checkpoint, and goes back to an older one if it cannot be loaded.
class RunResume {
 public:
  RunResume(const TrainerOptions& options, State& state, const CheckpointSaver& saver,
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
      place.store = patient_store(progress_.watch(place.store), options_, logger_);
    }
    SearchPlace& first = search_.places.front();
    if (!search_.takes_rank_tars && JointCheckpoints::is_needed(*first.store)) {
      joint_ = JointCheckpoints::in_folder(first, search_.places.size() > 1, logger_);
      first.store = joint_->store();
      first.is_in_parts = true;
    }
    for (;;) {
      FoundForAll found = find_for_all(options_, search_, logger_);
      if (!found.job || found.is_rank_tar) return begin();
      found.job->weights_are_lost = &weights_are_lost_;
      const bool is_joint = joint_ && found.job->options.store == joint_->store();
      if (is_joint) found.job->joint = joint_->store();
      if (auto outcome = load(*found.job)) return *outcome;
    }
  }

 private:
  // No checkpoint is left that all ranks could load together. Tars each rank loads by itself.
  LoadOutcome begin() {
    if (mixed_) throw RankError(*mixed_);
    // To begin again would abandon a checkpoint that a repaired disk may still give.
    agree_to_begin(unreadable_ ? unreadable_ : lost_, joint_.get());
    return search_.takes_rank_tars ? resume_rank_tars(options_, state_, saver_, logger_)
                                   : load_first(options_, state_, logger_);
  }

  // nullopt: the checkpoint is passed over.
  std::optional<LoadOutcome> load(const LoadJob& job) {
    const NodeCopy copy = copy_for_node(job, state_, progress_, logger_);
    try {
      LoadOutcome outcome = load_for_run(job, copy.nearest(), state_, progress_, logger_);
      outcome.resumed_from = place_of(job);
      const LoadedByAll loaded = agree_to_load({}, job.path, is_sharded(state_));
      if (!loaded.is_passed_over) return outcome;
      if (loaded.mixed) mixed_ = loaded.mixed;
      weights_are_lost_ = true;
      pass_over(job, "", mixed_->what());
    } catch (const dist::DistError&) {
      throw;
    } catch (const RankError&) {
      throw;
    } catch (Error& e) {
      const bool passes_over = is_fault_of_file(e);
      const LoadedByAll loaded =
          agree_to_load({passes_over ? RankOutcome::kPassOver : RankOutcome::kFailed, e.what()},
                        job.path, is_sharded(state_));
      if (!passes_over) {
        advise(e, job);
        throw;
      }
      if (loaded.mixed) mixed_ = loaded.mixed;
      if (read_fault_of(e) == ReadFault::kBytes && !unreadable_) {
        unreadable_ = std::current_exception();
      }
      if (weights_are_lost_ && !lost_) lost_ = std::current_exception();
      pass_over(job, ", which cannot be loaded", e.what());
    }
    return std::nullopt;
  }

  // As load_path takes it.
  static std::string place_of(const LoadJob& job) { return job.options.store->describe(job.path); }

  static void advise(Error& error, const LoadJob& job) {
    if (dynamic_cast<const MismatchError*>(&error) == nullptr) return;
    error.add_context("autoresume takes a checkpoint whole (to leave parts of it out, " +
                      one_start_without_autoresume(place_of(job)) + " and load_ignore_keys)");
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
  std::exception_ptr unreadable_;  // of the first checkpoint that the disk did not give whole
  std::exception_ptr lost_;        // of the first failed load that cost the weights
  bool weights_are_lost_ = false;
  std::optional<RankError> mixed_;  // some ranks have loaded what others could not
};

}  // namespace

LoadOutcome resume_or_load(const TrainerOptions& options, State& state,
                           const CheckpointSaver& saver, Logger& logger) {
  return RunResume(options, state, saver, logger).run();
}

}  // namespace cairn
