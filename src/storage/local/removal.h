// Removing a checkpoint so that it is there whole, or gone, also after a crash in between.
//
//  1. A file is unlinked, unless a living process of cairn holds its lock.
//  2. A folder is first renamed to ".cairn-removing-NAME", which nobody takes for a checkpoint;
//     then its files go, then itself.
//  3. After the unlinking or renaming the folder around it is synced: a removal that was reported
//     stays one, and removals reach the disk in the order in which they were made.
//
// A folder that a crash left under the name of step 2 is finished by finish_removals().
#pragma once

#include <string>
#include <vector>

#include "io/file.h"

namespace cairn {

// Steps 1 and 3, of a file or a link. False when it was locked, or not there. StorageError.
bool remove_file(FileSystem& files, const FilePath& path);

// Steps 2 and 3, for a folder. False if it is not there: another process may have removed it by
// now. StorageError.
bool remove_folder(FileSystem& files, const FilePath& path);

// Finishes what earlier removals left in `folder`; returns the names of those checkpoints.
std::vector<std::string> finish_removals(FileSystem& files, const FolderPath& folder);

// True for a name of step 2.
bool is_being_removed(const std::string& name);

}  // namespace cairn
