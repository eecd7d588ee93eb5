// What a CheckpointSaver (checkpoint_saver.cpp) looks at before the first batch: where it may
// write, what killed saves left there, what it has saved already, and what is in its way.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "cairn/error.h"
#include "cairn/train/logger.h"
#include "cairn/train/state.h"

#include "callbacks/checkpoint_saver_impl.h"
#include "callbacks/checkpoint_size.h"
#include "checkpoint/folder/leftovers.h"
#include "checkpoint/names/extension.h"
#include "checkpoint/names/format_string.h"
#include "core/few_lines.h"
#include "core/printable.h"
#include "core/size_text.h"
#include "storage/publish.h"

namespace cairn {
namespace {

// Whether training is at its end. True also if only the end of the last epoch is still to come.
bool is_at_end(const State& state) {
  const auto& max = state.max_duration;
  if (!max) return false;
  const Timestamp& now = state.timestamp;
  if (now.get(max->unit()) >= *max) return true;
  const bool ends_epoch = state.dataloader_len && now.batch_in_epoch >= *state.dataloader_len;
  return ends_epoch && max->unit() == TimeUnit::kEpoch && Time(now.epoch + 1, max->unit()) >= *max;
}

}  // namespace

// What another Trainer saved with this saver is not this run's to count, to replace or to remove.
// The next run's right to rewrite its own files is there already.
void CheckpointSaver::Impl::forget_run_before() {
  options.filename = given.filename;
  options.latest_filename = given.latest_filename;
  options.remote_file_name = given.remote_file_name;
  run_lock.reset();
  ranks.reset();
  has_tars = false;
  elsewhere.clear();
  is_due = create_interval_scheduler(options.save_interval);
  answer.reset();
  last_checkpoint_batch.reset();
  newest.reset();
  saved_in_parts.clear();
  saved = {};
  gone_on_from.reset();
  replaceable.clear();
  unusable.clear();
  not_looked_at.clear();
  has_checked = false;
  constant_path.clear();
  constant_version.reset();
  uploads = SaverUploads(options.num_remote_checkpoints_to_keep);
  durable.clear();
  finished = std::make_shared<FinishedQueue>();  // nobody asks for what comes into the other
}

// Far away: whether it can be written to, and, before anything is loaded, where the pointer stands
// and what has the name of all checkpoints, if they have one.
void CheckpointSaver::Impl::look_around(const State& state) {
  check_write_access(*options.store, folder(state), {});
  const FormatVariables dist = dist_variables(state.run_name);
  const NameFormat filename(options.filename);
  if (!has_counter(filename)) {
    constant_path = join_path(folder(state), strict_format(filename, dist));
    if (const auto there = options.store->stat(constant_path)) constant_version = there->version;
  }
  if (!options.latest_filename) return;
  const NameFormat latest(*options.latest_filename);
  if (has_counter(latest)) return;  // each save has its own
  pipeline.look_at_pointer(join_path(folder(state), strict_format(latest, dist)));
}

void CheckpointSaver::Impl::remove_leftovers(const State& state, Logger& logger) const {
  const FormatVariables writer =
      has_tars ? dist_variables(state.run_name) : variables_of_writer(state.run_name);
  const std::string folder = strict_format(NameFormat(options.folder), writer);
  std::vector<NameFormat> formats = {NameFormat(options.filename)};
  if (options.latest_filename) formats.emplace_back(*options.latest_filename);
  for (const std::string& name :
       remove_leftovers_of_formats(*options.store, folder, formats, writer)) {
    logger.log_message("removed " + printable_line(join_path(folder, name)) +
                       ", left by a save that was killed");
  }
}

void CheckpointSaver::Impl::look_at_uploads(const State& state, const Logger& logger) const {
  const FormatVariables dist = dist_variables(state.run_name);
  const NameFormat latest(options.latest_remote_file_name.value_or(""));
  SaverUploads::look(partial_format(NameFormat(*options.remote_file_name), dist),
                     partial_format(latest, dist), logger);
}

// Training begins at `now`. The pipeline forgets the versions of what this saver wrote itself
// further on, except `kept` and what is not looked at yet.
void CheckpointSaver::Impl::forget_further(const std::vector<FolderConflicts::File>& kept,
                                           const Timestamp& now) {
  for (const std::string& path : saved.paths()) {
    const bool may_replace =
        not_looked_at.contains(path) ||
        std::ranges::find(kept, path, &FolderConflicts::File::path) != kept.end();
    if (saved.is_saved_further(path, now) && !may_replace) pipeline.forget(path);
  }
}

// Tells the pipeline the version that a save may write over.
void CheckpointSaver::Impl::know_version(const FolderConflicts::File& file, const Timestamp& now) {
  // The pipeline knows the versions of its own files. This job may not replace a file that another
  // job wrote since then.
  if (saved.is_saved_here(file.path, now) || saved.is_saved_further(file.path, now)) return;
  // This run did not go on from a file that another job wrote after init().
  if (file.path != constant_path) return pipeline.may_replace(file.path, file.version);
  if (constant_version) pipeline.may_replace(file.path, *constant_version);
}

SaverPlace CheckpointSaver::Impl::place(const State& state) const {
  return {.store = options.store,
          .folder = folder(state),
          .filename = NameFormat(options.filename),
          .weights_only = options.weights_only,
          .run_name = state.run_name,
          .now = state.timestamp,
          .saves_folders = ranks != nullptr && !has_tars,
          .gone_on_from = gone_on_from};
}

// Throws if the disk has no room for the next save. A save writes the new checkpoint before it
// removes an older one. Does nothing for a checkpoint that is compressed or leaves parts out: its
// size is unknown. Does nothing for a run that is at its end: it saves nothing more.
void CheckpointSaver::Impl::check_room(const State& state) const {
  if (is_far || has_tars || !saves_here() || !options.ignore_keys.empty()) return;
  if (is_at_end(state)) return;
  const bool is_another = ranks && ranks->is_first_of_another_machine();
  if (is_idle() && !is_another) return;
  if (!ranks && find_extension(options.filename).codec != nullptr) return;
  const std::string where = is_another ? writers_folder(state) : folder(state);
  const auto room = files_of(*options.store).free_bytes(where);
  const std::uint64_t needed = least_checkpoint_bytes(state, options.weights_only);
  if (!room || *room >= needed) return;
  throw StorageError("save_folder " + where + " has " + size_text(*room) +
                         " free, and a checkpoint of this run needs at least " + size_text(needed) +
                         ": free space there, or save elsewhere",
                     ENOSPC, /*retryable=*/true);
}

// A run that was killed after its last save goes on from it. When only its epoch is to be ended
// yet, the batch is not saved again under the name that it has then.
void CheckpointSaver::Impl::recognise_saved(const State& state) {
  const SaverPlace here = place(state);
  const std::string saved_path = here.path();
  if (last_checkpoint_batch || here.now.batch == 0) return;
  // Whose it is, and at which batch, one machine alone cannot read: autoresume came from it.
  const bool is_in_parts = may_rewrite_own && here.may_have_gone_on_from(saved_path) &&
                           is_saved_in_parts(here, saved_path);
  if (!is_in_parts && !is_saved_already(here, saved_path)) return;
  last_checkpoint_batch = here.now.batch;
  // A tar of autoresume's is one of a save that all have, and is not put at stake again.
  if (is_in_parts || (has_tars && may_rewrite_own)) saved_in_parts = saved_path;
  if (!options.latest_filename) return;
  const std::string latest = path(state, *options.latest_filename);
  if (pipeline.points_at(latest, saved_path)) return;
  const auto lock = lock_unless_busy(state);
  if (!lock) return;  // another process trains the run, and moves the link itself
  clear_kind(latest, /*is_link=*/true);
  pipeline.move_pointer(latest, saved_path);  // the save was killed before this step
}

// What this run may write over from `now` on, and what is put aside first.
void CheckpointSaver::Impl::take(const FolderConflicts& found, const Timestamp& now) {
  for (const FolderConflicts::File& file : found.replaceable) {
    if (is_far) know_version(file, now);
    replaceable.insert(file.path);
  }
  FewLines lines;
  for (const auto& [path, problem, version] : found.unusable) {
    if (lines.take()) {
      messages.push_back("warning: nobody can go on from " + printable_line(path) +
                         ", so it does not stop this run from saving: " + problem);
    }
    unusable[path] = version;
  }
  if (lines.left_out() > 0) {
    messages.push_back(
        fmt::format("warning: the same is true of {} more files there that this run "
                    "may write over; `cairn ls --verify` names them",
                    lines.left_out()));
  }
}

// Before the first batch.
void CheckpointSaver::Impl::look_at_folder(const State& state) {
  const SaverPlace here = place(state);
  adopt_saved(here, saved);
  if (!options.overwrite) {
    const FolderConflicts found = check_conflicts(here, saved, may_rewrite_own);
    not_looked_at = {found.not_looked_at.begin(), found.not_looked_at.end()};
    if (is_far) forget_further(found.replaceable, here.now);
    replaceable.clear();
    take(found, here.now);
    if (!not_looked_at.empty()) {
      messages.push_back(fmt::format(
          "warning: {} has more files under names that this run, at batch {}, has still to write "
          "than are looked into before training: {} were not ({} is one). Each of them is looked "
          "into when its name comes, and is not written over unless it is this run's",
          here.folder, here.now.batch, not_looked_at.size(), *not_looked_at.begin()));
    }
  }
  has_checked = true;
  if (keep() != 0) recognise_saved(state);
}

// Looks at what has the name of a save at this moment, if look_at_folder() has not.
void CheckpointSaver::Impl::look_at_name(const State& state) {
  if (not_looked_at.empty()) return;
  const SaverPlace here = place(state);
  if (not_looked_at.erase(here.path()) == 0) return;
  take(check_next_save(here, saved, may_rewrite_own, /*goes_on_from_it=*/false), here.now);
}

// Behind fit_start(), too, when somebody asks for a save; before it nobody has looked at what that
// one would write over.
void CheckpointSaver::Impl::prepare(const State& state) {
  const SaverPlace here = place(state);
  adopt_saved(here, saved);
  if (!options.overwrite && !has_checked && saves_here()) {
    const FolderConflicts found =
        check_next_save(here, saved, may_rewrite_own, /*goes_on_from_it=*/true);
    if (is_far) forget_further(found.replaceable, here.now);
    replaceable.clear();
    take(found, here.now);
  }
  options.store->prepare(here.folder);
}

void CheckpointSaver::Impl::agree_on_last_batch() {
  const Value agreed = Team::of_job().of_first(last_checkpoint_batch.value_or(-1));
  last_checkpoint_batch.reset();
  if (agreed.as_int() >= 0) last_checkpoint_batch = agreed.as_int();
}

void CheckpointSaver::Impl::begin_fit(State& state, Logger& logger) {
  answer.reset();  // of an event that an error kept from coming
  if (last_checkpoint_batch > state.timestamp.batch) {
    last_checkpoint_batch.reset();  // time was set back: that batch is still to come
  }
  try {
    lock_run(state, logger);
    Team::of_job().together("looking at what is saved", [&] {
      if (!is_idle() && saves_here()) look_at_folder(state);
    });
  } catch (...) {
    run_lock.reset();  // this fit() does not begin
    throw;
  }
  log_messages(logger);
  agree_on_last_batch();
}

}  // namespace cairn
