// Folders below another one that hold checkpoints, as far as names tell: what a command that looks
// at one folder has not looked at.
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

// Looks at the names in `folders`, which lie directly in `folder`, and in those below them, the
// nearest first. Opens nothing, and lists at most a hundred folders.
FoldersBelow find_folders_below(ObjectStore& store, const std::string& folder,
                                const std::vector<std::string>& folders);

}  // namespace cairn
