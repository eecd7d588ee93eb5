#include "saving/remote_folder.h"

#include <algorithm>

#include "cairn/callbacks/checkpoint_saver.h"
#include "cairn/checkpoint/names.h"
#include "cairn/train/logger.h"

#include "checkpoint/names/format_string.h"

namespace cairn {
namespace {

// The length of the folders that both formats share and that contain no counter, including their
// last slash. If the second format is empty, the length of those folders of the first format that
// contain no counter.
std::size_t shared_folders(const NameFormat& one, const NameFormat& other) {
  const std::size_t fixed = fixed_folders(one);
  if (other.empty()) return fixed;
  const std::string folders = one.text().substr(0, fixed);
  const auto same = std::ranges::mismatch(folders, other.text()).in1 - folders.begin();
  const std::size_t slash = folders.substr(0, static_cast<std::size_t>(same)).rfind('/');
  return slash == std::string::npos ? 0 : slash + 1;
}

}  // namespace

std::optional<RemoteFolder> remote_folder_of(const LoggerDestination& destination,
                                             const CheckpointSaverOptions& saver,
                                             const std::string& run_name) {
  const FormatVariables dist = dist_variables(run_name);
  const auto file = destination.place_of(partial_format(NameFormat(*saver.remote_file_name), dist));
  if (!file) return std::nullopt;
  NameFormat latest;
  if (saver.latest_remote_file_name) {
    const NameFormat format(*saver.latest_remote_file_name);
    const auto pointer = destination.place_of(partial_format(format, dist));
    if (pointer) latest = pointer->name;
  }
  const std::size_t folder = shared_folders(file->name, latest);
  RemoteFolder found{.store = file->store,
                     .folder = ".",
                     .filename = NameFormat(file->name.text().substr(folder)),
                     .latest_filename = latest};
  if (folder > 0) found.folder = only_name(NameFormat(file->name.text().substr(0, folder - 1)));
  if (!latest.empty()) found.latest_filename = NameFormat(latest.text().substr(folder));
  return found;
}

}  // namespace cairn
