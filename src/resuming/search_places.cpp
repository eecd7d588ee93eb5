#include "resuming/search_places.h"

#include <string>

#include "cairn/callbacks/checkpoint_saver.h"
#include "cairn/checkpoint/names.h"
#include "cairn/train/logger.h"
#include "cairn/train/state.h"

#include "checkpoint/names/launch.h"
#include "checkpoint/names/run_forms.h"
#include "saving/remote_folder.h"
#include "saving/trainer_calls.h"
#include "train/state/checkpoint_form.h"

namespace cairn {
namespace {

// The names in a logger's bucket that Composer's guide to autoresume gives. `extension` is the
// extension of newer releases, or empty, as in older releases.
CheckpointSaverOptions names_of_guide(const CheckpointSaverOptions& options,
                                      const std::string& extension) {
  CheckpointSaverOptions guide = options;
  guide.remote_file_name = "{run_name}/checkpoints/ep{epoch}-ba{batch}-rank{rank}" + extension;
  guide.latest_remote_file_name = "{run_name}/checkpoints/latest-rank{rank}" + extension;
  return guide;
}

}  // namespace

std::vector<SearchPlace> search_places(const CheckpointSaver& saver, const State& state,
                                       const Logger& logger) {
  const CheckpointSaverOptions& options = saver.options();
  const CheckpointSaverOptions& given = CheckpointSaver::TrainerCalls::given_options(saver);
  const std::string& asked_for = State::CheckpointForm::of(state).sharded_ckpt_prefix_dir;
  const std::string folders = asked_for.empty() ? kShardedFolders : asked_for;
  std::vector<SearchPlace> places = {
      {.store = options.store,
       .folder = strict_format(NameFormat(options.folder), variables_of_writer(state.run_name)),
       .filename = NameFormat(options.filename),
       .latest_filename = NameFormat(options.latest_filename.value_or("")),
       .run_name = state.run_name,
       .other_filenames = names_of_forms(given.filename, folders),
       .latest = CheckpointSaver::TrainerCalls::seen_latest(saver, state)}};
  if (!options.store->names_are_paths() || !options.remote_file_name) return places;
  for (const auto& destination : logger.destinations()) {
    if (!destination->can_upload_files()) continue;
    const auto there = remote_folder_of(*destination, options, state.run_name);
    if (!there) continue;
    SearchPlace place{.store = there->store,
                      .folder = there->folder,
                      .filename = there->filename,
                      .latest_filename = there->latest_filename,
                      .run_name = state.run_name};
    const auto as_given = remote_folder_of(*destination, given, state.run_name);
    if (as_given && as_given->folder == there->folder) {
      place.other_filenames = names_of_forms(as_given->filename.text(), folders);
    }
    places.push_back(std::move(place));
    for (const char* const extension : {".pt", ""}) {
      const auto guide =
          remote_folder_of(*destination, names_of_guide(options, extension), state.run_name);
      if (!guide || guide->folder == there->folder) continue;
      places.push_back({.store = guide->store,
                        .folder = guide->folder,
                        .filename = guide->filename,
                        .latest_filename = guide->latest_filename,
                        .run_name = state.run_name});
    }
  }
  return places;
}

}  // namespace cairn
