#include "cli/runs/find_runs.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "cairn/error.h"

#include "checkpoint/folder/list_checkpoints.h"
#include "cli/runs/event_files.h"
#include "cli/runs/log_choice.h"
#include "cli/view/joined.h"
#include "core/text/printable.h"
#include "io/file.h"
#include "storage/listing.h"
#include "storage/place.h"

namespace cairn::cli {
namespace {

constexpr std::size_t kMostRuns = 100;
// Each folder costs a list: a request in a far store.
constexpr std::size_t kMostListed = 2000;
constexpr std::size_t kMostListedFar = 100;

using FileTime = std::chrono::system_clock::time_point;

struct MaybeRun {
  std::string name;
  FileTime written = {};  // its log, or else the folder
  bool has_log = false;   // of FileLogger
  bool is_run = false;
};

bool is_of_run(const std::vector<ListedName>& names) {
  return std::ranges::any_of(names, [](const ListedName& listed) {
    return is_log_name(listed.name) || is_event_file_name(listed.name) ||
           has_checkpoint_name(listed.name);
  });
}

// Fills in what the folder's list tells. Returns false if it cannot be listed now.
bool look_into(ObjectStore& store, const std::string& path, MaybeRun& folder) {
  try {
    const std::vector<ListedName> names = list_all_if_any(store, path);
    folder.is_run = is_of_run(names);
    for (const ListedName& listed : names) {
      if (!is_log_name(listed.name)) continue;
      folder.has_log = true;
      if (const auto info = info_of(store, path, listed))
        folder.written = std::max(folder.written, info->modified);
    }
    return true;
  } catch (const StorageError&) {
    return false;
  }
}

std::vector<MaybeRun> folders_in(ObjectStore& store, const std::string& place,
                                 const std::vector<ListedName>& names) {
  std::vector<MaybeRun> folders;
  for (const ListedName& listed : names) {
    if (has_checkpoint_name(listed.name)) continue;
    const auto info = info_of(store, place, listed);
    if (info && info->type == ObjectInfo::Type::kFolder)
      folders.push_back({.name = listed.name, .written = info->modified});
  }
  std::ranges::sort(folders, std::greater(),
                    [](const MaybeRun& folder) { return std::pair(folder.written, folder.name); });
  return folders;
}

}  // namespace

FoundRuns find_runs(ObjectStore& store, const std::string& place,
                    const std::map<std::string, std::string>& known) {
  const std::string shown = shown_place(place);
  const std::vector<ListedName> names = list_all(store, shown);
  std::vector<MaybeRun> folders = folders_in(store, shown, names);
  FoundRuns found;
  const std::size_t listed =
      std::min(folders.size(), store.may_be_far() ? kMostListedFar : kMostListed);
  found.not_looked_at = folders.size() - listed;
  folders.resize(listed);
  for (MaybeRun& folder : folders) {
    if (!look_into(store, join_path(shown, folder.name), folder))
      folder.is_run = known.contains(folder.name);
  }
  if (is_of_run(names) && std::ranges::none_of(folders, &MaybeRun::has_log))
    return {.runs = {{base_name(shown), place}}};
  std::erase_if(folders, [](const MaybeRun& folder) { return !folder.is_run; });
  std::ranges::stable_sort(folders, std::greater(), &MaybeRun::written);
  const std::size_t most = std::min(folders.size(), kMostRuns);
  found.not_looked_at += folders.size() - most;
  folders.resize(most);
  for (const MaybeRun& folder : folders)
    found.runs.emplace(folder.name, join_path(shown, folder.name));
  return found;
}

void check_places(const RunPlaces& places) {
  if (!places.checkpoints.empty()) {
    const std::string checkpoints = shown_place(places.checkpoints);
    if (is_folder(*store_of(places.checkpoints, nullptr), checkpoints)) return;
    throw NotFoundError("there is no folder " + checkpoints);
  }
  const auto store = store_of(places.run, nullptr);
  const std::string folder = shown_place(places.run);
  if (!is_folder(*store, folder) || is_of_run(list_all(*store, folder))) return;
  constexpr std::size_t kMostNamed = 5;
  constexpr std::size_t kMostOpened = 20;
  const FoundRuns found = find_runs(*store, folder, {});
  std::vector<std::string> named;
  std::size_t opened = 0;
  for (const auto& [name, place] : found.runs) {
    if (named.size() == kMostNamed || opened++ == kMostOpened) break;
    const std::vector<LogPlace> logs = find_logs(*store, place);
    if (!logs.empty() && logs.front().kind == LogKind::kLines) named.push_back(place);
  }
  if (named.empty()) return;
  const bool are_all = named.size() == found.runs.size() && found.not_looked_at == 0;
  throw UsageError(
      printable_line(folder + " is not a run, but a folder of runs: " + joined(named)) +
      (are_all ? "" : " and others") +
      ". Name those that you mean, or start `cairn serve` for the folder");
}

}  // namespace cairn::cli
