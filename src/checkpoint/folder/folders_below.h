// Finds subfolders that hold checkpoints, as far as names show, so that a command can name the
// folders that it has not looked into.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cairn/storage/object_store.h"

namespace cairn {

struct FolderBelow {
  std::string path;
  std::size_t checkpoints = 0;  // files and folders in it with the name of a checkpoint
};

struct FoldersBelow {
  std::vector<FolderBelow> found = {};  // sorted
  bool is_complete = true;              // false: some folders were not listed
};

// Looks at the names in `folders`, which are directly in `folder`, and in the folders below them,
// the nearest first. Opens nothing, and lists at most a hundred folders.
FoldersBelow find_folders_below(ObjectStore& store, const std::string& folder,
                                const std::vector<std::string>& folders);

}  // namespace cairn
