#include "storage/local/removal.h"

#include <cerrno>
#include <string_view>

#include "cairn/error.h"

#include "io/durable/clean_up.h"

namespace cairn {
namespace {

constexpr std::string_view kPrefix = ".cairn-removing-";

bool is_folder(FileSystem& files, const FilePath& path) {
  const auto info = files.stat(path.text(), /*follow=*/false);
  return info && info->type == FileInfo::Type::kFolder;
}

}  // namespace

bool remove_file(FileSystem& files, const FilePath& path) {
  if (!files.remove_unlocked(path)) return false;
  files.sync_folder(path.folder);
  return true;
}

bool remove_folder(FileSystem& files, const FilePath& path) {
  const FilePath hidden = path.beside(std::string(kPrefix) + path.name);
  try {
    files.rename(path, hidden);
  } catch (const StorageError& e) {
    if (e.status() != ENOENT) throw;
    return false;
  }
  files.sync_folder(path.folder);
  retry_after_bad_alloc([&] { remove_tree(files, hidden); });
  return true;
}

std::vector<std::string> finish_removals(FileSystem& files, const FolderPath& folder) {
  std::vector<std::string> finished;
  for (const std::string& name : files.list(folder.text())) {
    const FilePath path(folder, name);
    if (!is_being_removed(name) || !is_folder(files, path)) continue;
    // The dead process may not have synced. Without the sync a power cut brings the old name back,
    // with half of the folder's contents.
    if (finished.empty()) files.sync_folder(folder);
    remove_tree(files, path);
    finished.push_back(name.substr(kPrefix.size()));
  }
  return finished;
}

bool is_being_removed(const std::string& name) { return name.starts_with(kPrefix); }

}  // namespace cairn
