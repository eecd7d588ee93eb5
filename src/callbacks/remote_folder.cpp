#include "callbacks/remote_folder.h"

#include <algorithm>

#include "cairn/callbacks/checkpoint_saver.h"
#include "cairn/checkpoint/names.h"
#include "cairn/train/logger.h"

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

}  // namespace

std::optional<RemoteFolder> remote_folder_of(const LoggerDestination& destination,
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
  return RemoteFolder{.store = file->store,
                      .folder = folder == 0 ? "." : file->name.substr(0, folder - 1),
                      .filename = file->name.substr(folder),
                      .latest_filename = latest.empty() ? "" : latest.substr(folder)};
}

}  // namespace cairn
