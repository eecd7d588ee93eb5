// Removes a checkpoint so that it exists whole or not at all, even after a crash in between.
//
//  1. A file is unlinked, unless a living process of cairn holds its lock.
//  2. A folder is first renamed to ".cairn-removing-NAME", which no reader takes for a checkpoint.
//     Then its files are removed, and last the folder itself.
//  3. After the unlinking or renaming the parent folder is synced. So a removal that was reported
//     is final, and removals reach the disk in their order.
//
// If a crash leaves a folder under the name of step 2, finish_removals() removes it.
#pragma once

#include <string>
#include <vector>

#include "io/file.h"

namespace cairn {

// Steps 1 and 3, for a file or a link. Returns false if `path` is locked or does not exist. Throws
// StorageError.
bool remove_file(FileSystem& files, const FilePath& path);

// Steps 2 and 3, for a folder. Returns false if the folder does not exist: another process may have
// removed it. Throws StorageError.
bool remove_folder(FileSystem& files, const FilePath& path);

// Finishes the removals in `folder` that were begun earlier. Returns the names of their
// checkpoints.
std::vector<std::string> finish_removals(FileSystem& files, const FolderPath& folder);

// Whether the name is one of step 2.
bool is_being_removed(const std::string& name);

}  // namespace cairn
