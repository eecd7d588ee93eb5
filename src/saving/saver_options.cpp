#include "saving/saver_options.h"

#include <string>

#include "cairn/error.h"
#include "cairn/train/state.h"

#include "checkpoint/names/launch.h"
#include "checkpoint/names/shared_name.h"
#include "checkpoint/plan/write_checkpoint.h"
#include "core/text/printable.h"
#include "core/text/utf8.h"
#include "io/file.h"
#include "io/uri.h"
#include "saving/best_saves.h"
#include "storage/place.h"

namespace cairn {
namespace {

void check_remote_names(const CheckpointSaverOptions& options, const FormatVariables& dist) {
  const auto& file = options.remote_file_name;
  const auto& latest = options.latest_remote_file_name;
  for (const auto& name : {file, latest}) {
    if (name) strict_format(NameFormat(*name), dist + time_variables({}));
  }
  if (!file || !latest || !shared_name(NameFormat(*file), NameFormat(*latest), dist)) return;
  throw UsageError("CheckpointSaver: a checkpoint (remote_file_name \"" + *file +
                   "\") and the link to the newest (latest_remote_file_name \"" + *latest +
                   "\") could have one name: the link would replace the checkpoint");
}

}  // namespace

CheckpointSaverOptions checked_options(CheckpointSaverOptions options) {
  const std::string problem = options.store ? "" : writing_problem(options.folder);
  if (!problem.empty()) throw UnsupportedError(problem);
  options.store = store_of(options.folder, options.store);
  if (options.folder.empty()) options.folder = ".";
  for (auto* name :
       {&options.latest_filename, &options.remote_file_name, &options.latest_remote_file_name}) {
    if (*name == "") name->reset();
  }
  // A folder's name must not contain counters.
  strict_format(NameFormat(options.folder), dist_variables("run"));
  for (std::string* name :
       {&options.filename, options.latest_filename ? &*options.latest_filename : nullptr}) {
    if (name == nullptr) continue;
    name->erase(0, name->find_first_not_of('/'));
  }
  if (const int keep = options.num_checkpoints_to_keep.value_or(-1); keep < -1) {
    throw UsageError("num_checkpoints_to_keep is -1 (all), 0 or more, not " + std::to_string(keep));
  }
  const int keep_remote = options.num_remote_checkpoints_to_keep.value_or(-1);
  if (keep_remote < 1 && keep_remote != -1) {
    throw UsageError("num_remote_checkpoints_to_keep is -1 (all), 1 or more, not " +
                     std::to_string(keep_remote));
  }
  if (options.keep_best) options.keep_best = checked_keep_best(*options.keep_best, "keep_best");
  if (options.num_concurrent_uploads < 1) {
    throw UsageError("num_concurrent_uploads must be at least 1");
  }
  if (options.store_patience.count() < 0) throw UsageError("store_patience is less than 0");
  if (options.max_pending_saves < 1) throw UsageError("max_pending_saves must be at least 1");
  const Time* interval = options.save_interval.time();
  const bool is_fraction = interval != nullptr && interval->unit() == TimeUnit::kDuration;
  if (interval != nullptr && (is_fraction ? interval->fraction() <= 0 : interval->value() <= 0)) {
    throw UsageError("save_interval is " + interval->to_string() +
                     ", and nothing would ever be saved: give more than 0");
  }
  return options;
}

void check_is_text(const ObjectStore& store, const std::string& folder,
                   const std::string& run_name) {
  if (!is_utf8(folder)) {
    throw UsageError("save_folder " + store.describe(folder) +
                     " is not UTF-8, and a checkpoint holds its own path as text: give the folder "
                     "another name");
  }
  if (run_name == "." || run_name == "..") {
    throw UsageError("run_name is \"" + run_name + "\", which names another folder in save_folder");
  }
  if (is_utf8(run_name)) return;
  throw UsageError("run_name " + run_name + " is not UTF-8, and a checkpoint holds it as text");
}

void check_names(const CheckpointSaverOptions& options, const FormatVariables& dist) {
  // In a program's own store, names may look like anything.
  const bool is_own = !options.store->names_are_paths() && scheme_of(options.folder).empty();
  const auto check_name = [&](const std::string& format, const std::string& called) {
    const std::string name = strict_format(NameFormat(format), dist + time_variables({}));
    if (!is_own) check_is_name(name, "CheckpointSaver: " + called);
    if (has_dot_component(name)) {
      throw UsageError("CheckpointSaver: " + called + " \"" + printable_line(name) +
                       "\" leads out of the save folder (by . or ..), where autoresume does not "
                       "look: name the folder in save_folder");
    }
    if (!is_utf8(name)) {
      throw UsageError("CheckpointSaver: " + called + " " + name +
                       " is not UTF-8, and a checkpoint holds its own name as text");
    }
    check_extension(name);
  };
  check_name(options.filename, "filename");
  check_remote_names(options, dist);
  if (!options.latest_filename) return;
  check_name(*options.latest_filename, "latest_filename");
  const auto both =
      shared_name(NameFormat(options.filename), NameFormat(*options.latest_filename), dist);
  if (both) {
    throw UsageError("CheckpointSaver: a checkpoint (filename \"" + options.filename +
                     "\") and the link to the newest (latest_filename \"" +
                     *options.latest_filename + "\") could both be named " + *both +
                     ": the link would replace the checkpoint. Give the link another name");
  }
}

std::string save_folder(const CheckpointSaverOptions& options, const State& state) {
  return strict_format(NameFormat(options.folder), dist_variables(state.run_name));
}

std::string writers_folder(const CheckpointSaverOptions& options, const State& state) {
  return strict_format(NameFormat(options.folder), variables_of_writer(state.run_name));
}

std::string name_now(const std::string& format, const State& state) {
  return strict_format(NameFormat(format),
                       dist_variables(state.run_name) + time_variables(state.timestamp));
}

std::string save_path(const CheckpointSaverOptions& options, const State& state) {
  return join_path(save_folder(options, state), name_now(options.filename, state));
}

std::string link_path(const CheckpointSaverOptions& options, const State& state) {
  if (!options.latest_filename) return "";
  return join_path(save_folder(options, state), name_now(*options.latest_filename, state));
}

}  // namespace cairn
