#include "trainer/search_places.h"

#include <algorithm>

#include "cairn/callbacks/checkpoint_saver.h"
#include "cairn/checkpoint/names.h"
#include "cairn/train/logger.h"

#include "checkpoint/names/launch.h"
#include "storage/local_store.h"

namespace cairn {
namespace {

// The length of the folders, with their last slash, that two formats share and that no counter is
// in; those of the first alone when the second is empty.
std::size_t shared_folders(const std::string& one, const std::string& other) {
  const auto same = other.empty() ? one.end() : std::ranges::mismatch(one, other).in1;
  const auto end = std::min<std::size_t>(same - one.begin(), one.find('{'));
  const std::size_t slash = one.substr(0, end).rfind('/');
  return slash == std::string::npos ? 0 : slash + 1;
}

std::optional<SearchPlace> place_at(const LoggerDestination& destination,
                                    const CheckpointSaverOptions& saver,
                                    const std::string& run_name) {
  const FormatVariables dist = dist_variables(run_name);
  const auto file = destination.place_of(partial_format(*saver.remote_file_name, dist));
  if (!file) return std::nullopt;
  std::string latest;
  if (saver.latest_remote_file_name) {
    const auto pointer = destination.place_of(partial_format(*saver.latest_remote_file_name, dist));
    if (pointer) latest = pointer->name;
  }
  const std::size_t folder = shared_folders(file->name, latest);
  const std::string inside = folder == 0 ? "." : file->name.substr(0, folder - 1);
  return SearchPlace{.store = file->store,
                     .folder = inside,
                     .filename = file->name.substr(folder),
                     .latest_filename = latest.empty() ? "" : latest.substr(folder),
                     .run_name = run_name};
}

}  // namespace

std::vector<SearchPlace> search_places(const CheckpointSaverOptions& saver,
                                       const std::string& run_name, const Logger& logger) {
  std::vector<SearchPlace> places = {
      {.store = saver.store,
       .folder = strict_format(saver.folder, variables_of_writer(run_name)),
       .filename = saver.filename,
       .latest_filename = saver.latest_filename.value_or(""),
       .run_name = run_name}};
  if (!is_local(*saver.store) || !saver.remote_file_name) return places;
  for (const auto& destination : logger.destinations()) {
    if (!destination->can_upload_files()) continue;
    if (auto place = place_at(*destination, saver, run_name)) places.push_back(std::move(*place));
  }
  return places;
}

}  // namespace cairn
