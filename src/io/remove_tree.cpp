#include <string>
#include <vector>

#include "io/file.h"

namespace cairn {

void remove_tree(FileSystem& files, const std::string& root) {
  const auto is_folder = [&](const std::string& path) {
    const auto info = files.stat(path, /*follow=*/false);
    return info && info->type == FileInfo::Type::kFolder;
  };
  std::vector<std::string> folders = {root};  // each behind the one that holds it
  for (std::size_t i = 0; i < folders.size(); ++i) {
    for (const std::string& name : files.list(folders[i])) {
      const std::string path = join_path(folders[i], name);
      if (is_folder(path)) {
        folders.push_back(path);
      } else {
        files.remove(path);
      }
    }
  }
  for (auto folder = folders.rbegin(); folder != folders.rend(); ++folder) {
    files.remove_folder(*folder);
  }
}

}  // namespace cairn
