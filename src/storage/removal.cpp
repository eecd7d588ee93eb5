#include "storage/removal.h"

#include <string_view>

namespace cairn {
namespace {

constexpr std::string_view kPrefix = ".cairn-removing-";

bool is_folder(FileSystem& files, const std::string& path) {
  const auto info = files.stat(path, /*follow=*/false);
  return info && info->type == FileInfo::Type::kFolder;
}

}  // namespace

bool remove_file(FileSystem& files, const std::string& path) {
  if (!files.remove_unlocked(path)) return false;
  files.sync_folder(parent_path(path));
  return true;
}

void remove_folder(FileSystem& files, const std::string& path) {
  const std::string parent = parent_path(path);
  const std::string hidden = join_path(parent, std::string(kPrefix) + base_name(path));
  files.rename(path, hidden);
  files.sync_folder(parent);
  remove_tree(files, hidden);
}

std::vector<std::string> finish_removals(FileSystem& files, const std::string& folder) {
  std::vector<std::string> finished;
  for (const std::string& name : files.list(folder)) {
    const std::string path = join_path(folder, name);
    if (!is_being_removed(name) || !is_folder(files, path)) continue;
    // Whoever died may not have come to this: without it a power cut brings the old name back, and
    // half of what was in it.
    if (finished.empty()) files.sync_folder(folder);
    remove_tree(files, path);
    finished.push_back(name.substr(kPrefix.size()));
  }
  return finished;
}

bool is_being_removed(const std::string& name) { return name.starts_with(kPrefix); }

}  // namespace cairn
