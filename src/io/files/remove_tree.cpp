#include <string>
#include <utility>
#include <vector>

#include "cairn/error.h"

#include "io/file.h"

namespace cairn {

void remove_tree(FileSystem& files, const FilePath& path) {
  const auto is_folder = [&](const FilePath& inside) {
    const auto info = files.stat(inside.text(), /*follow=*/false);
    return info && info->type == FileInfo::Type::kFolder;
  };
  // Another process may remove the same file or folder.
  const auto names_in = [&](const FilePath& folder) -> std::vector<std::string> {
    try {
      return files.list(folder.text());
    } catch (const NotFoundError&) {
      return {};
    }
  };
  std::vector<FilePath> folders = {path};  // each after the one that holds it
  for (std::size_t i = 0; i < folders.size(); ++i) {
    for (std::string& name : names_in(folders[i])) {
      const FilePath inside(folders[i].as_folder(), std::move(name));
      if (is_folder(inside)) {
        folders.push_back(inside);
      } else {
        files.remove(inside);
      }
    }
  }
  for (auto folder = folders.rbegin(); folder != folders.rend(); ++folder) {
    files.remove_folder(*folder);
  }
}

}  // namespace cairn
