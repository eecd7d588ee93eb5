#include "trainer/search_places.h"

#include "cairn/callbacks/checkpoint_saver.h"
#include "cairn/checkpoint/names.h"
#include "cairn/train/logger.h"

#include "callbacks/remote_folder.h"
#include "checkpoint/names/launch.h"
#include "storage/local_store.h"

namespace cairn {
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
    const auto there = remote_folder_of(*destination, saver, run_name);
    if (!there) continue;
    places.push_back({.store = there->store,
                      .folder = there->folder,
                      .filename = there->filename,
                      .latest_filename = there->latest_filename,
                      .run_name = run_name});
  }
  return places;
}

}  // namespace cairn
