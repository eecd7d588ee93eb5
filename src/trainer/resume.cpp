#include "trainer/resume.h"

#include <cstdlib>
#include <exception>
#include <iostream>
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
#include "checkpoint/open/training_info.h"
#include "checkpoint/ranks/see_checkpoints.h"
#include "core/printable.h"
#include "io/file.h"
#include "io/read_fault.h"
#include "storage/links.h"
#include "storage/local_store.h"
#include "storage/place.h"
#include "train/state/load_job.h"
#include "train/state/rank_saves.h"
#include "train/state/sharded_state.h"
#include "trainer/check_savers.h"
#include "trainer/joint_checkpoints.h"
#include "trainer/load_progress.h"
#include "trainer/node_copy.h"
#include "trainer/rank_tar_loads.h"
#include "trainer/ranks.h"
#include "trainer/search_places.h"

namespace cairn {
namespace {

std::string position_text(const Timestamp& timestamp) {
  return "epoch " + std::to_string(timestamp.epoch) + ", batch " + std::to_string(timestamp.batch);
}

// Checkpoints of other runs that lie in this one's folder.
class OtherRuns {
 public:
  void add(const std::string& path, const std::string& run_name) {
    paths_.emplace_back(path, printable_line(run_name));
    names_.insert(paths_.back().second);
  }
  bool any() const { return !paths_.empty(); }

  std::string describe(const std::string& folder, const std::string& run_name) const {
    std::string names;
    for (const std::string& name : names_) {
      names += (names.empty() ? "\"" : ", \"") + name + "\"";
    }
    return "warning: autoresume passed over " + std::to_string(paths_.size()) + " checkpoint" +
           (paths_.size() == 1 ? "" : "s") + " in " + folder + " of other runs (" + names +
           "): this one is \"" + run_name + "\"";
  }

  // UsageError when one of them has a name that this run would write.
  void refuse_collision(const std::string& folder, const std::string& filename,
                        const std::string& run_name) const {
    const FormatVariables dist = dist_variables(run_name);
    for (const auto& [path, whose] : paths_) {
      const std::string name = relative_path(normal_path(path), normal_path(folder));
      if (!parse_name(filename, name, dist)) continue;
      throw UsageError("autoresume: " + folder + " has no checkpoint of the run \"" + run_name +
                       "\", but " + path + " of the run \"" + whose +
                       "\", a name that this run would write, too. To go on with that run, set "
                       "run_name to \"" +
                       whose +
                       "\". To begin another one, give it a folder of its own (save_folder "
                       "\"" +
                       folder +
                       "/{run_name}\") or put {run_name} into save_filename, and "
                       "set load_path to begin from that checkpoint.");
    }
  }

 private:
  std::vector<std::pair<std::string, std::string>> paths_;  // with the run's name
  std::set<std::string> names_;
};

}  // namespace

bool is_fault_of_file(const Error& error) {
  const bool is_of_program = dynamic_cast<const MismatchError*>(&error) != nullptr ||
                             dynamic_cast<const UsageError*>(&error) != nullptr;
  return !is_of_program && read_fault_of(error) != ReadFault::kNow;
}

namespace {

// What autoresume passes over: where they are, and their paths there.
using PassedOver = std::vector<std::pair<std::shared_ptr<ObjectStore>, std::string>>;

// Step 3.
std::optional<FoundCheckpoint> find_in(const SearchPlace& place, const PassedOver& except,
                                       OtherRuns& others, Logger& logger) {
  FindOptions find;
  find.filename = place.filename;
  find.run_name = place.run_name;
  find.latest_filename = place.latest_filename;
  const bool is_joint = dynamic_cast<const JointStore*>(place.store.get()) != nullptr;
  find.trust_latest = !is_local(*place.store) && !is_joint;
  for (const auto& [store, path] : except) {
    if (store == place.store) find.except.push_back(path);
  }
  find.verify = Verify::kQuick;  // loading looks at every byte, and finds the next older one then
  find.store = place.store;
  find.on_skip = [&logger](const std::string& path, const std::string& why) {
    logger.log_message("warning: autoresume skipped " + printable_line(path) + ": " +
                       without_path(why, printable_line(path)));
  };
  find.on_other_run = [&others](const std::string& path, const std::string& whose) {
    others.add(path, whose);
  };
  auto found = find_latest(place.folder, find);
  if (others.any()) logger.log_message(others.describe(place.folder, place.run_name));
  return found;
}

// Of one machine that has parts: to begin again would leave them behind.
void refuse_parts(const SearchPlace& place) {
  if (!is_local(*place.store)) return;
  const SeePlace look_at = {.folder = place.folder,
                            .filename = place.filename,
                            .writer = variables_of_writer(place.run_name)};
  for (const SeenCheckpoint& one : see_checkpoints(*place.store, look_at)) {
    const std::string path = join_path(place.folder, one.name);
    const bool is_part = one.is_published ? is_part_of_one(*place.store, path) : one.was_published;
    if (!is_part) continue;
    throw UsageError("autoresume: " + path +
                     " has the files of one machine, and the others are on machines that are not "
                     "in this job. Start it on those, too; or bring the folders of all of them "
                     "together; or remove it to begin anew");
  }
}

// Steps 2 to 4, but for loading. StorageError when a place cannot be read: then nobody knows
// whether there is a checkpoint, and starting over would be wrong. UsageError when it is another
// run's.
std::optional<LoadJob> find_newest(const TrainerOptions& trainer,
                                   const std::vector<SearchPlace>& places, const PassedOver& except,
                                   Logger& logger) {
  std::optional<FoundCheckpoint> furthest;
  std::shared_ptr<ObjectStore> store;  // where it is
  std::vector<std::pair<SearchPlace, OtherRuns>> searched;
  for (const SearchPlace& place : places) {
    OtherRuns others;
    auto found = find_in(place, except, others, logger);
    if (found && (!furthest || position(furthest->timestamp) < position(found->timestamp))) {
      furthest = std::move(found);
      store = place.store;
    }
    searched.emplace_back(place, std::move(others));
  }
  if (!furthest) {
    std::string folders;
    bool any_other = false;
    for (const auto& [place, others] : searched) {
      others.refuse_collision(place.folder, place.filename, place.run_name);
      refuse_parts(place);
      folders += (folders.empty() ? "" : ", ") + place.folder;
      any_other = any_other || others.any();
    }
    logger.log_message("autoresume: no checkpoint" +
                       std::string(any_other ? " of this run in " : " in ") + folders +
                       (trainer.load_path ? "; loading load_path" : "; starting afresh"));
    return std::nullopt;
  }
  logger.log_message("autoresume: going on from " +
                     printable_line(store->describe(furthest->path)) + " (" +
                     position_text(furthest->timestamp) + ")");
  return LoadJob{.path = furthest->path,
                 .checkpoint = furthest->checkpoint,
                 .options = {.strict_model_weights = trainer.load_strict_model_weights,
                             .store = store,
                             .in_place = trainer.load_in_place}};
}

// CheckpointSource::content() of what rank 0 opened; empty when it opened nothing.
std::string content_of(const LoadJob& job) {
  return job.checkpoint ? job.checkpoint->impl().source->content() : "";
}

// Rank 0 looks, and all load what it found. A place is known to the others by its number, and,
// where each rank has a folder of its own, what is in it by its path from there.
std::optional<LoadJob> find_for_all(const TrainerOptions& trainer,
                                    const std::vector<SearchPlace>& places,
                                    const PassedOver& except, Logger& logger) {
  std::optional<LoadJob> job;
  if (dist::rank() == 0) {
    const dist::LongWork long_work;
    job = find_newest(trainer, places, except, logger);
  }
  if (dist::world_size() == 1) return job;
  std::int64_t number = -1;
  for (std::size_t i = 0; job && i < places.size(); ++i) {
    if (places[i].store == job->options.store) number = static_cast<std::int64_t>(i);
  }
  const bool is_joint = dynamic_cast<const JointStore*>(places.front().store.get()) != nullptr;
  const std::string folder = normal_path(places.front().folder);
  std::string path = job ? job->path : "";
  if (is_joint && number == 0) path = relative_path(normal_path(path), folder);
  const std::string content = job ? content_of(*job) : "";
  const Value found = dist::broadcast_value(List{number, path, content});
  number = found.as_items().at(0).as_int();
  if (job) job->content = content;  // it may be copied for the processes of this machine
  if (job || number < 0) return job;
  if (number >= static_cast<std::int64_t>(places.size())) {
    throw UsageError("autoresume: rank 0 goes on from " +
                     printable_line(found.as_items().at(1).as_str()) +
                     ", which a logger keeps that this rank does not have: give all ranks the same "
                     "loggers");
  }
  path = found.as_items().at(1).as_str();
  if (is_joint && number == 0) path = join_path(folder, path);
  return LoadJob{.path = path,
                 .content = found.as_items().at(2).as_str(),
                 .options = {.strict_model_weights = trainer.load_strict_model_weights,
                             .store = places.at(static_cast<std::size_t>(number)).store,
                             .in_place = trainer.load_in_place}};
}

// What a pointer of that name points at for rank 0, in the folder, which others may have under
// another name: a run that still saves moves its `latest` while they open it. `path` where there is
// no pointer, or one that leads out of the folder.
std::string pointed_at_for_all(const std::string& path, ObjectStore& store) {
  if (dist::world_size() == 1) return path;
  std::string name;
  if (dist::rank() == 0) {
    const dist::LongWork long_work;
    try {
      const bool is_file = path.ends_with(kLinkFile);  // people name that, too
      const auto pointer =
          store.read_pointer(is_file ? path.substr(0, path.size() - kLinkFile.size()) : path);
      if (pointer) {
        name = relative_path(normal_path(pointer->target), normal_path(parent_path(path)));
      }
    } catch (const std::exception&) {
      // opening it says what is wrong, for all
    }
  }
  name = dist::broadcast_value(name).as_str();
  if (name.empty() || name.starts_with("..")) return path;
  return path.find('/') == std::string::npos ? name : join_path(parent_path(path), name);
}

LoadProgress progress_of(const TrainerOptions& options) {
  return LoadProgress({.is_shown = options.load_progress_bar,
                       .chunk_bytes = options.load_chunk_size,
                       .stream = options.console_stream == "stdout" ? &std::cout : &std::cerr});
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
  if (dynamic_cast<const JointStore*>(job.options.store.get()) != nullptr) {
    outcome.path_of_parts = job.path;
  }
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
      "loaded " + job.path +
      (job.options.load_weights_only ? " (weights)" : ": " + position_text(state.timestamp)));
  return outcome;
}

namespace {

// That of another rank, on this one.
class RankError : public StorageError {
 public:
  explicit RankError(const std::string& message) : StorageError(message, 0) {}
};

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
  if (dist::world_size() == 1) return;
  RankOutcome outcome;
  std::exception_ptr failed;
  std::string content;
  if (dist::rank() == 0) {
    const dist::LongWork long_work;
    try {
      job.checkpoint = open_checkpoint(job.path, job.options.store);
      content = content_of(job);
    } catch (const std::exception& e) {
      failed = std::current_exception();
      outcome = {RankOutcome::kFailed, e.what()};
    }
  }
  agree_to_load(outcome, job.path, /*in_parts=*/false);
  if (failed) std::rethrow_exception(failed);
  job.content = dist::broadcast_value(content).as_str();
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

LoadOutcome load_first(const TrainerOptions& options, State& state, Logger& logger) {
  if (!options.load_path) return {};
  if (loads_rank_tars(options, state)) return load_rank_tars(options, state, logger);
  const std::string path = strict_format(*options.load_path, variables_of_writer(state.run_name));
  LoadProgress progress = progress_of(options);
  const auto store = progress.watch(store_of(path, options.load_object_store));
  // Weights alone are not worth the transfer of three times as much optimizer state.
  const bool is_dear = options.load_weights_only && !is_local(*store);
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
    if (joint->store()->stat(joint->path())) {  // what nobody has loading says best
      job.path = joint->path();
      job.options.store = joint->store();
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

LoadOutcome resume_or_load(const TrainerOptions& options, State& state,
                           const CheckpointSaver& saver, Logger& logger) {
  if (saves_rank_tars(state)) return resume_rank_tars(options, state, saver, logger);
  LoadProgress progress = progress_of(options);
  std::vector<SearchPlace> places = search_places(saver.options(), state.run_name, logger);
  for (SearchPlace& place : places) {
    place.store = progress.watch(place.store);
  }
  std::unique_ptr<JointCheckpoints> joint;
  if (JointCheckpoints::is_needed(*places.front().store)) {
    joint = JointCheckpoints::in_folder(places.front(), places.size() > 1, logger);
    places.front().store = joint->store();
  }
  PassedOver except;
  std::exception_ptr unreadable;  // the disk did not give all of the first such one
  std::exception_ptr lost;        // what the first one said that cost the weights
  bool weights_are_lost = false;
  std::optional<RankError> mixed;  // some ranks have loaded what others could not
  for (;;) {
    auto job = find_for_all(options, places, except, logger);
    if (!job) {
      if (mixed) throw RankError(*mixed);
      // To begin again would leave behind what a repaired disk may still give.
      agree_to_begin(unreadable ? unreadable : lost, joint.get());
      return load_first(options, state, logger);
    }
    job->weights_are_lost = &weights_are_lost;
    const NodeCopy copy = copy_for_node(*job, state, progress, logger);
    try {
      LoadOutcome outcome = load_for_run(*job, copy.nearest(), state, progress, logger);
      outcome.is_resumed = true;
      const LoadedByAll loaded = agree_to_load({}, job->path, is_sharded(state));
      if (!loaded.is_passed_over) return outcome;
      if (loaded.mixed) mixed = loaded.mixed;
      weights_are_lost = true;
      logger.log_message("warning: autoresume skipped " + printable_line(job->path) + ": " +
                         printable_line(mixed->what()));
      except.emplace_back(job->options.store, job->path);
    } catch (const dist::DistError&) {
      throw;
    } catch (const RankError&) {
      throw;
    } catch (const Error& e) {
      const bool passes_over = is_fault_of_file(e);
      const LoadedByAll loaded =
          agree_to_load({passes_over ? RankOutcome::kPassOver : RankOutcome::kFailed, e.what()},
                        job->path, is_sharded(state));
      if (!passes_over) throw;
      if (loaded.mixed) mixed = loaded.mixed;
      if (read_fault_of(e) == ReadFault::kBytes && !unreadable) {
        unreadable = std::current_exception();
      }
      if (weights_are_lost && !lost) lost = std::current_exception();
      logger.log_message("warning: autoresume skipped " + printable_line(job->path) +
                         ", which cannot be loaded: " + printable_line(e.what()));
      except.emplace_back(job->options.store, job->path);
    }
  }
}

}  // namespace cairn
