#include "saving/logger_places.h"

#include <optional>

#include "cairn/error.h"
#include "cairn/train/logger.h"
#include "cairn/train/state.h"

#include "dist/team.h"
#include "saving/remote_folder.h"
#include "saving/saver_options.h"

namespace cairn {
namespace {

// The folder at each logger that keeps files. nullopt if one of these loggers does not say where it
// keeps files.
std::optional<std::vector<RemoteFolder>> folders_of_loggers(const CheckpointSaverOptions& options,
                                                            const State& state,
                                                            const Logger& logger) {
  std::vector<RemoteFolder> folders;
  if (!options.store->names_are_paths() || !options.remote_file_name) return folders;
  for (const auto& destination : logger.destinations()) {
    if (!destination->can_upload_files()) continue;
    auto folder = remote_folder_of(*destination, options, state.run_name);
    if (!folder) return std::nullopt;
    folders.push_back(std::move(*folder));
  }
  return folders;
}

// Each rank sends its own files, so all ranks need the same loggers. Otherwise throws on all ranks.
void check_loggers(const std::optional<std::vector<RemoteFolder>>& own) {
  std::vector<std::int64_t> counts;
  for (const Value& count : Team::of_job().gather_all(own ? std::ssize(*own) : -1))
    counts.push_back(count.as_int());
  for (std::size_t rank = 0; rank < counts.size(); ++rank) {
    if (counts[rank] < 0) {
      throw UnsupportedError(
          "sharded checkpoints (state_dict_type \"sharded\") go only to loggers that say where "
          "they keep files (place_of()), as RemoteUploaderDownloader does.\nSave into the place "
          "itself, for example with save_folder s3://bucket/{run_name}, or set state_dict_type to "
          "\"full\"");
    }
    if (counts[rank] == counts[0]) continue;
    throw UsageError("sharded checkpoints: rank " + std::to_string(rank) + " has " +
                     std::to_string(counts[rank]) + " loggers that keep files, and rank 0 has " +
                     std::to_string(counts[0]) +
                     ". Each rank sends its own part: give all ranks the same loggers");
  }
}

// All ranks use rank 0's names, each rank in its own store. If folders were named after the rank or
// its machine, the other ranks' parts could not be found.
void take_names_of_rank_zero(std::vector<RemoteFolder>& folders) {
  List names;
  for (const RemoteFolder& folder : folders)
    names.emplace_back(List{folder.folder, folder.filename.text(), folder.latest_filename.text()});
  const Value said = Team::of_job().broadcast_from_first(std::move(names));
  for (std::size_t i = 0; i < folders.size(); ++i) {
    const List& place = said.as_items().at(i).as_items();
    folders[i].folder = place.at(0).as_str();
    folders[i].filename = NameFormat(place.at(1).as_str());
    folders[i].latest_filename = NameFormat(place.at(2).as_str());
  }
}

// The saver's options for saving into `folder`.
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

std::vector<CheckpointSaverOptions> places_of_loggers(const CheckpointSaverOptions& options,
                                                      const State& state, const Logger& logger) {
  auto folders = folders_of_loggers(options, state, logger);
  check_loggers(folders);
  take_names_of_rank_zero(*folders);
  std::vector<CheckpointSaverOptions> places;
  for (RemoteFolder& folder : *folders) {
    places.push_back(checked_options(options_elsewhere(options, std::move(folder))));
    check_names(places.back(), dist_variables(state.run_name));
  }
  return places;
}

}  // namespace cairn
