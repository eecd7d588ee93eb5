#include "saving/places/destination.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "cairn/error.h"
#include "cairn/train/logger.h"
#include "cairn/train/state.h"

#include "checkpoint/folder/conflict.h"
#include "checkpoint/names/format_string.h"
#include "checkpoint/names/launch.h"
#include "checkpoint/ranks/see_checkpoints.h"
#include "core/text/printable.h"
#include "core/text/run_messages.h"
#include "core/text/size_text.h"
#include "dist/group.h"
#include "dist/team.h"
#include "io/file.h"
#include "saving/remote_folder.h"
#include "saving/same_moment.h"
#include "saving/saver_start.h"
#include "storage/listing.h"
#include "storage/publish/publish.h"
#include "storage/retrying_store.h"
#include "train/state/gather/checkpoint_info.h"

namespace cairn {
namespace {

using Clock = std::chrono::steady_clock;

// Retries for options.store_patience. `add` receives a line for each retry.
RetryPolicy patient(const CheckpointSaverOptions& options, std::function<void(std::string)> add) {
  return {.patience = options.store_patience,
          .patience_option = "store_patience (save_store_patience of a Trainer)",
          .on_retry = told_by_lines(std::move(add))};
}

RetryPolicy patient(const CheckpointSaverOptions& options, Logger& logger) {
  return patient(options, [&logger](const std::string& line) { logger.log_message(line); });
}

SavePipelineOptions pipeline_options(const CheckpointSaverOptions& options,
                                     const std::shared_ptr<FinishedSaves>& finished) {
  const int pending = is_far(options)
                          ? std::max(options.max_pending_saves, options.num_concurrent_uploads)
                          : options.max_pending_saves;
  return {.async = options.save_async,
          .max_pending = static_cast<std::size_t>(pending),
          .store = options.store,
          .retry = patient(options,
                           [finished](std::string line) { finished->notes.add(std::move(line)); })};
}

// The places to which loggers upload the saves of `here`. Omits loggers that do not name a place.
std::vector<SaverPlace> places_of_uploads(const CheckpointSaverOptions& options,
                                          const SaverPlace& here, Logger& logger) {
  std::vector<SaverPlace> places;
  for (const auto& destination : logger.destinations()) {
    if (!destination->can_upload_files()) continue;
    const auto there = remote_folder_of(*destination, options, here.run_name);
    if (!there || repeats_in_every_epoch(there->filename)) continue;
    SaverPlace& place = places.emplace_back(here);
    place.store = there->store->may_be_far()
                      ? retrying_store(there->store, patient(options, logger))
                      : there->store;
    place.folder = there->folder;
    place.filename = there->filename;
  }
  return places;
}

// Whether all saves move the same link.
bool has_one_link(const CheckpointSaverOptions& options) {
  return options.latest_filename && !has_counter(NameFormat(*options.latest_filename));
}

std::optional<std::int64_t> same_on_all_ranks(std::optional<std::int64_t> batch) {
  const std::int64_t of_first = Team::of_job().broadcast_from_first(batch.value_or(-1)).as_int();
  return of_first >= 0 ? std::optional(of_first) : std::nullopt;
}

// Lets `job` remove a file that is known only from a loaded state only if it still belongs to this
// run. `store` does not retry: the code that removes does.
void ask_before_removal(SaveJob& job, SaverPlace here, std::shared_ptr<ObjectStore> store,
                        const SavedCheckpoints& saved) {
  auto loaded = saved.loaded_among(job.remove_afterwards);
  if (loaded.empty()) return;
  here.store = std::move(store);
  job.may_remove = [here, loaded = std::move(loaded)](ObjectStore& /*store*/,
                                                      const std::string& path) {
    const auto entry = loaded.find(path);
    return entry == loaded.end() || is_still_own(here, path, entry->second);
  };
}

}  // namespace

Destination::Destination(CheckpointSaverOptions options, std::unique_ptr<CheckpointLayout> layout,
                         bool feeds_uploads, const RunFacts& run,
                         std::vector<std::string>& messages)
    : options_(std::move(options)),
      layout_(std::move(layout)),
      feeds_uploads_(feeds_uploads),
      run_(run),
      messages_(messages),
      saved_(options_.keep_best),
      pipeline_(pipeline_options(options_, finished_)),
      rights_(options_.overwrite, saved_, pipeline_.publisher().own(), messages_) {}

// The training thread waits in this store's calls, so each retry is logged at once.
SaverPlace Destination::place(const State& state, Logger& logger) const {
  return {.store = is_far(options_) ? retrying_store(options_.store, patient(options_, logger))
                                    : options_.store,
          .folder = save_folder(options_, state),
          .filename = NameFormat(options_.filename),
          .weights_only = options_.weights_only,
          .run_name = state.run_name,
          .now = state.timestamp,
          .saves_folders = layout_->makes_folders(),
          .resumed_from = run_.resumed_from};
}

std::optional<Pointer> Destination::link_at_start(const State& state) const {
  return pipeline_.publisher().seen_pointer(link_path(options_, state));
}

void Destination::prepare(const State& state, Logger& logger) {
  const std::string folder = save_folder(options_, state);
  const std::string home = writers_folder(options_, state);
  lock_ = SaverLock(options_.store, home, state.run_name, run_.job);
  const Team team = Team::of_job();
  team.run_on_all("preparing " + folder, [&] {
    if (!layout_->is_writer()) return;
    check_is_text(*options_.store, folder, state.run_name);
    lock_.look(link_path(options_, state));
    options_.store->prepare(folder);
    if (is_far(options_)) {
      const RetryPolicy retry = patient(options_, logger);
      check_write_access(*options_.store, folder, retry);
      rights_.look_at_constant_name(place(state, logger));
      if (has_one_link(options_))
        pipeline_.publisher().look_at_pointer(link_path(options_, state), retry);
    } else {
      try_names(options_, state);
    }
    if (feeds_uploads_) look_at_uploads(options_, state, logger);
    remove_leftovers(options_, folder, dist_variables(state.run_name), logger);
  });
  // A machine that shares no file system with rank 0's machine has its own folder for its parts.
  if (!layout_->makes_folders() || is_far(options_) || team.is_alone()) return;
  if (dist::count_machines() == 1) return;
  // Ranks that share rank 0's file system have looked into that folder by now.
  dist::barrier("looking for leftovers of killed saves");
  team.run_on_all("preparing " + home, [&] {
    if (!layout_->is_first_of_another_machine()) return;
    options_.store->prepare(home);
    remove_leftovers(options_, home, variables_of_writer(state.run_name), logger);
  });
}

void Destination::after_load(const State& state, Logger& logger) {
  Team::of_job().run_on_all("looking at what is saved", [&] {
    if (checkpoints_to_keep(options_) != 0 && layout_->is_writer())
      note_already_saved(state, logger);
    if (saves_here()) check_room(options_, *layout_, state);
  });
  last_due = same_on_all_ranks(last_due);
}

// A run that was killed after its last save resumes from it. If only the end of its epoch is left,
// the batch is not saved again under the name that it has after the epoch.
void Destination::note_already_saved(const State& state, Logger& logger) {
  const SaverPlace here = place(state, logger);
  const std::string path = here.path();
  if (last_due || here.now.batch == 0) return;
  // One machine alone cannot read which run wrote a checkpoint in parts, and at which batch. But
  // autoresume loaded this one.
  const bool is_in_parts =
      run_.may_rewrite_own && here.may_have_resumed_from(path) && is_saved_in_parts(here, path);
  if (!is_in_parts && !holds_checkpoint_of_now(here, path)) return;
  last_due = here.now.batch;
  // All ranks resumed from it together, so it is whole: it is not written again.
  const bool is_one_of_several = layout_->is_of_all_ranks() && !layout_->makes_folders();
  if (is_in_parts || (is_one_of_several && run_.may_rewrite_own)) saved_in_parts_ = path;
  const std::string link = link_path(options_, state);
  if (link.empty() || pipeline_.publisher().points_at(link, path)) return;
  const auto lock = lock_.take_unless_busy();
  if (!lock) return;  // Another process trains the run, and moves the link itself.
  rights_.put_link_obstacle_aside(here, link);
  pipeline_.publisher().move_pointer(link, path);  // The save was killed before this step.
}

void Destination::begin_fit(const State& state, Logger& logger) {
  // If training time was set back (reset_time), the batch of last_due is yet to come.
  if (last_due > state.timestamp.batch) last_due.reset();
  const Team team = Team::of_job();
  const std::string home = writers_folder(options_, state);
  try {
    if (saves_here()) {
      // A custom store may be far away on one rank only. So each rank asks its own store for the
      // lock, within a step that all ranks take together.
      team.run_on_all("locking " + home, [&] {
        if (is_written_elsewhere() || lock_.hold(link_path(options_, state))) return;
        logger.log_message(options_.store->describe(home) +
                           " has no locks (flock): a second start of this run would not be "
                           "noticed");
      });
      if (!team.is_alone() && layout_->is_of_all_ranks()) {
        team.run_on_all("locking " + home, [&] {
          if (layout_->is_first_of_another_machine()) lock_.share();
        });
      }
    }
    team.run_on_all("looking at what is saved", [&] {
      if (!layout_->is_writer() || !saves_here()) return;
      const SaverPlace here = place(state, logger);
      adopt_saved(here, saved_);
      std::vector<SaverPlace> uploads;
      if (feeds_uploads_) uploads = places_of_uploads(options_, here, logger);
      rights_.look_at_folder(here, uploads, run_.may_rewrite_own);
      if (checkpoints_to_keep(options_) != 0) note_already_saved(state, logger);
    });
  } catch (...) {
    lock_.release();  // This fit() does not begin.
    throw;
  }
  last_due = same_on_all_ranks(last_due);
}

SaveJob Destination::plan(const SaveRequest& what) try {
  const SaverPlace here = place(what.state, what.logger);
  const std::string path = here.path();
  if (what.is_asked) {
    adopt_saved(here, saved_);
    if (saves_here()) rights_.look_before_save(here, run_.may_rewrite_own);
    options_.store->prepare(here.folder);
  }
  rights_.look_at_name(here, run_.may_rewrite_own);
  rights_.put_obstacle_aside(here, path, run_.may_rewrite_own);
  if (checkpoints_to_keep(options_) != 0)
    rights_.put_link_obstacle_aside(here, link_path(options_, what.state));
  const bool may_replace = rights_.may_replace(path) || saved_.is_saved_here(path, here.now);
  SaveJob job = next_job(here, what.state);
  if (!is_far(options_) || options_.overwrite) return job;
  if (layout_->is_of_all_ranks()) {
    job.replace = replace_if(may_replace);
  } else {
    // OwnObjects knows which versions this job wrote. An earlier save of this name may still be
    // under way, so the version to replace is not known yet.
    job.replace = Replace::kOwn;
    job.is_retired = [here](const std::string& old) { return here.is_retired(old); };
  }
  return job;
} catch (...) {
  drop_failed();
  throw;
}

SaveJob Destination::next_job(const SaverPlace& here, const State& state) {
  const int keep = checkpoints_to_keep(options_);
  SaveJob job;
  job.path = here.path();
  job.info = checkpoint_info(state, options_.weights_only);
  job.puts_aside = run_.may_rewrite_own || options_.overwrite;
  if (keep != 0) job.latest = link_path(options_, state);
  const bool is_ranked = run_.metric && is_same_moment(run_.metric->first, state.timestamp);
  saved_.begin(job.path, state.timestamp,
               is_ranked ? std::optional(run_.metric->second) : std::nullopt);
  newest_ = {.number = ++saves_begun_, .path = job.path, .timestamp = state.timestamp};
  if (keep <= 0) return job;
  job.remove_afterwards = saved_.superfluous(keep);
  ask_before_removal(job, here, options_.store, saved_);
  return job;
}

SaveJob Destination::plan_part(const SaveRequest& what, const std::string& path,
                               const List& superfluous) {
  SaveJob job = next_job(place(what.state, what.logger), what.state);
  job.path = path;
  job.latest.clear();
  job.remove_afterwards.clear();
  for (const Value& name : superfluous) {
    const std::string old = join_path(writers_folder(options_, what.state), name.as_str());
    if (!is_far(options_)) job.remove_afterwards.push_back(old);
    saved_.remove(old);
  }
  return job;
}

void Destination::submit(SaveJob job, const std::function<void(SaveJob&)>& fill) {
  try {
    fill(job);
    job.report = [finished = finished_, number = saves_begun_,
                  begin = Clock::now()](const SaveReport& done) {
      finished->push({number, done, Clock::now() - begin});
    };
    pipeline_.submit(std::move(job));
  } catch (...) {
    drop_failed();
    throw;
  }
}

// Waits, because it is only known which saves have failed once none is under way.
void Destination::drop_failed() {
  try {
    wait();
  } catch (const Error& e) {  // a second error: the first one is being thrown
    messages_.push_back(std::string("warning: ") + e.what());
  }
}

void Destination::settle() {
  for (std::string& line : finished_->notes.take())
    messages_.push_back(std::move(line));
  for (const FinishedSaves::One& done : finished_->take()) {
    const std::string& path = done.report.path;
    if (done.report.is_skipped) {
      // A newer save of the same name has this entry.
      if (!newest_ || newest_->path != path) saved_.skip(path);
      messages_.push_back("skipped " + printable_line(path) +
                          ": the store cannot be reached, and a newer save waits in its place");
      continue;
    }
    saved_.finish(path);
    rights_.saved(path);
    if (newest_ && newest_->number == done.number) newest_->is_durable = true;
    if (feeds_uploads_) durable_.push_back(path);
    note_removed(done.report);
    if (is_written_elsewhere()) continue;  // Rank 0 logs it.
    if (is_far(options_) && done.is_first) {
      if (auto warning = warning_without_locks(*options_.store, path); !warning.empty())
        messages_.push_back(std::move(warning));
    }
    messages_.push_back(fmt::format("{}{}  {}  {:.2f} s", kSavedMessage, printable_line(path),
                                    size_text(done.report.bytes), done.duration.count()));
  }
}

void Destination::note_removed(const SaveReport& done) {
  for (const std::string& path : done.removed)
    saved_.remove(path);
  for (const std::string& path : done.refused) {
    // It was logged before, or another rank logs it.
    if (!saved_.disown(path) || !layout_->is_writer()) continue;
    messages_.push_back("warning: " + printable_line(path) +
                        " is not removed: it cannot be read now, is not what this run saved "
                        "there, or holds files that are no part of a checkpoint");
  }
  if (!done.warning.empty()) messages_.push_back("warning: " + done.warning);
}

void Destination::wait() {
  std::exception_ptr error;
  try {
    if (is_far(options_)) {
      pipeline_.wait_until(Clock::now() + options_.upload_timeout);
    } else {
      pipeline_.wait();
    }
  } catch (...) {
    error = std::current_exception();
  }
  settle();
  saved_.drop_unfinished();
  if (newest_ && !newest_->is_durable) newest_.reset();
  if (error) std::rethrow_exception(error);
}

void Destination::throw_error() {
  try {
    pipeline_.throw_error();
  } catch (...) {
    drop_failed();
    throw;
  }
}

void Destination::close() {
  const auto forget_all = [this] {
    layout_->forget_saves();
    pipeline_.release_tensors();
  };
  forget_all();  // A program that now replaces the weights need not have both in memory.
  std::exception_ptr error;
  try {
    wait();
  } catch (...) {
    error = std::current_exception();
  }
  lock_.release();
  forget_all();  // The saves under way have kept more since then.
  if (error) std::rethrow_exception(error);
}

// True if the newest save is of this moment and has this name. A local file is looked up once more;
// in a far store the save itself has verified the object.
bool Destination::has_saved(const State& state) const {
  const std::string path = save_path(options_, state);
  if (!newest_ && !saved_in_parts_.empty()) {
    return last_due == state.timestamp.batch && saved_in_parts_ == path;
  }
  if (!newest_ || !is_same_moment(newest_->timestamp, state.timestamp)) return false;
  if (newest_->path != path) return false;
  const bool is_kept_here = !is_far(options_) && checkpoints_to_keep(options_) != 0;
  return !newest_->is_durable || !is_kept_here || options_.store->stat(newest_->path);
}

// Removes what the last save would have removed, if that save was killed before. Does nothing
// unless the present state of training is saved here as a whole (note_already_saved()).
void Destination::remove_superfluous(const State& state, Logger& logger) {
  const int keep = checkpoints_to_keep(options_);
  if (keep <= 0 || last_due != state.timestamp.batch) return;
  const std::string home = writers_folder(options_, state);
  List names;
  const Team team = Team::of_job();
  team.run_on_all("looking for superfluous checkpoints", [&] {
    if (!layout_->is_writer()) return;
    adopt_saved(place(state, logger), saved_);
    for (const std::string& path : saved_.superfluous(keep))
      names.emplace_back(relative_path(normal_path(path), normal_path(home)));
  });
  const bool over_ranks = layout_->makes_folders();
  if (over_ranks) names = team.broadcast_from_first(std::move(names)).as_items();
  team.run_on_all("removing superfluous checkpoints", [&] {
    const bool has_parts = over_ranks && layout_->is_first_of_another_machine();
    if (names.empty() || !(layout_->is_writer() || has_parts)) return;
    const auto lock = lock_.take_unless_busy();
    if (!lock) return;  // The process that trains removes them at its next save.
    SaveJob job;
    job.path = save_path(options_, state);
    job.latest = link_path(options_, state);
    for (const Value& name : names)
      job.remove_afterwards.push_back(join_path(home, name.as_str()));
    // If this machine sees the whole folder, it shares rank 0's file system, and rank 0 removes the
    // folder.
    if (has_parts) job.may_remove = is_machine_part;
    if (!has_parts) ask_before_removal(job, place(state, logger), options_.store, saved_);
    job.is_of_all_ranks = layout_->is_of_all_ranks();
    const SaveReport done = pipeline_.retain(job);
    note_removed(done);
    for (const std::string& path : done.removed) {
      messages_.push_back("removed " + printable_line(path) +
                          ", the oldest of the checkpoints, of which " + std::to_string(keep) +
                          " are kept");
    }
  });
}

std::vector<std::pair<std::string, Timestamp>> Destination::finished_saves() const {
  if (!layout_->is_writer()) return {};
  auto saves = saved_.finished();
  ExistenceCache exists(options_.store);
  std::erase_if(saves, [&exists](const auto& one) { return !exists(one.first); });
  return saves;
}

}  // namespace cairn
