// The lock of the run in the save folder (checkpoint/folder/run_lock.h), as a CheckpointSaver
// (checkpoint_saver.cpp) holds it.
//
//  0. Before autoresume looks for checkpoints, init() notes where the link leads if another job has
//     the lock. This run would write over the checkpoints that the other job saves after this look.
//     So step 1 ends with a BusyError if the link leads elsewhere by then, even if the lock is
//     free.
//  1. fit_start takes the lock before it looks at anything. Rank 0 takes it first, then the first
//     rank of each other machine that writes there. On a shared folder they share one lock, since
//     all ranks give one text (start).
//  2. fit_end and close() release it, after the last save.
//  3. Outside of a fit() a saver may move the link (after a load) and remove checkpoints (of a
//     finished run). It takes the lock for that moment. If another process holds the lock, the
//     saver leaves both to that process.
#include <exception>

#include "cairn/error.h"
#include "cairn/train/logger.h"
#include "cairn/train/state.h"

#include "callbacks/checkpoint_saver_impl.h"
#include "checkpoint/folder/run_lock.h"
#include "checkpoint/ranks/see_checkpoints.h"
#include "core/printable.h"
#include "io/file.h"
#include "storage/local_store.h"

namespace cairn {

std::shared_ptr<void> CheckpointSaver::Impl::take_lock(const State& state) const {
  const std::string folder = writers_folder(state);
  FileSystem& files = files_of(*options.store);
  files.make_folders(folder);
  return take_run_lock(files, {.folder = folder, .run_name = state.run_name, .job = start});
}

std::string CheckpointSaver::Impl::newest_by_link(const State& state) const {
  const std::string link = latest_path(state);
  const auto pointer = link.empty() ? std::nullopt : options.store->read_pointer(link);
  return pointer ? pointer->target : "";
}

// Step 0.
void CheckpointSaver::Impl::look_at_lock(const State& state) {
  newest_while_locked.reset();
  if (is_far) return;
  const RunLockRequest lock = {
      .folder = writers_folder(state), .run_name = state.run_name, .job = start};
  if (is_run_locked(files_of(*options.store), lock)) newest_while_locked = newest_by_link(state);
}

// Warns about a store that cannot tell the writes of two jobs apart. Called after the first save: a
// store may have to try what it can do, and that save has tried most of it.
void CheckpointSaver::Impl::say_without_locks(const std::string& saved_path) {
  try {
    const StoreFeatures features = options.store->features();
    if (features.fenced_writes && features.fenced_pointers) return;
  } catch (const StorageError&) {
    return;  // it does not tell now
  }
  messages.push_back(options.store->describe(parent_path(saved_path)) +
                     " has no locks: a second start of this run is not noticed before both have "
                     "saved");
}

// Step 1. All ranks call it together.
void CheckpointSaver::Impl::lock_run(const State& state, Logger& logger) {
  if (!saves_here()) return;
  // A custom store may be far on one rank alone. So each rank asks its own store, within a step
  // that all ranks take together.
  const Team team = Team::of_job();
  team.together("locking " + writers_folder(state), [&] {
    if (is_written_elsewhere()) return;
    if (is_far) return;
    run_lock = take_lock(state);
    if (newest_while_locked && newest_by_link(state) != *newest_while_locked) {
      throw BusyError("the run \"" + printable_line(state.run_name) +
                      "\" was training in another process when this start looked for its "
                      "checkpoints, and has saved further ones since. Start this one again");
    }
    if (run_lock != nullptr) return;
    logger.log_message("the file system of " + writers_folder(state) +
                       " has no locks (flock): a second start of this run would not be noticed");
  });
  if (team.is_alone() || !ranks) return;
  team.together("locking " + writers_folder(state), [&] {
    if (!is_far && ranks->is_first_of_another_machine()) run_lock = take_lock(state);
  });
}

// Step 3. nullopt: another process has the lock.
std::optional<std::shared_ptr<void>> CheckpointSaver::Impl::lock_unless_busy(
    const State& state) const {
  if (is_far) return nullptr;
  try {
    return take_lock(state);
  } catch (const BusyError&) {
    return std::nullopt;
  }
}

// Does step 5 of the last save (save_pipeline.cpp), if that save was killed before it. Does nothing
// unless the present state of training is saved here, whole: recognise_saved() knows. All ranks
// call it together.
void CheckpointSaver::Impl::retain(const State& state, Logger& logger) {
  if (keep() <= 0 || last_checkpoint_batch != state.timestamp.batch) return;
  const std::string home = writers_folder(state);
  List names;
  const Team team = Team::of_job();
  team.together("looking for superfluous checkpoints", [&] {
    if (is_idle()) return;
    adopt_saved(place(state), saved);
    for (const std::string& path : saved.superfluous(keep())) {
      names.emplace_back(relative_path(normal_path(path), normal_path(home)));
    }
  });
  const bool over_ranks = ranks != nullptr && !has_tars;
  if (over_ranks) names = team.of_first(std::move(names)).as_items();
  team.together("removing superfluous checkpoints", [&] {
    const bool is_another = over_ranks && ranks->is_first_of_another_machine();
    if (names.empty() || (is_idle() && !is_another)) return;
    const auto lock = lock_unless_busy(state);
    if (!lock) return;  // the next save of the process that trains does it
    SaveJob job;
    job.path = place(state).path();
    if (options.latest_filename) job.latest = path(state, *options.latest_filename);
    for (const Value& name : names) {
      job.remove_afterwards.push_back(join_path(home, name.as_str()));
    }
    // If the folder is whole there, both ranks see one file system, and rank 0 removes it.
    if (is_another) job.may_remove = is_part_of_one;
    if (!is_another) ask_before_removal(job, state);
    report_retention(pipeline.retain(job, over_ranks));
  });
  log_messages(logger);
  for (const auto& saver : elsewhere)
    saver->impl_->retain(state, logger);
}

void CheckpointSaver::Impl::report_retention(const SaveReport& done) {
  for (const std::string& path : done.removed) {
    saved.remove(path);
    messages.push_back("removed " + printable_line(path) +
                       ", the oldest of the checkpoints, of which " + std::to_string(keep()) +
                       " are kept");
  }
  disown(done.refused);
  if (!done.warning.empty()) messages.push_back("warning: " + done.warning);
}

void CheckpointSaver::remove_superfluous(State& state, Logger& logger) {
  impl_->retain(state, logger);
}

}  // namespace cairn
