// Publishes a folder so that its name never stands for an incomplete folder.
//
//  1. Create the folder `.cairn-tmp-<name>-<random>` beside the target.
//  2. Write the files into it, each synced before it is closed.
//  3. fsync the folder.
//  4. If nothing has the target's name, rename the new folder to it. If a folder that may be
//     replaced has the target's name, exchange the names of the two folders in one step.
//  5. fsync the parent. Until then a power cut may undo step 4.
//  6. Remove the old folder, which has the temporary name now.
//
// Where the file system cannot exchange two names (NFS), step 4 is two steps. Between them nothing
// has the target's name:
//
//  4a. Rename the old folder to `.cairn-old-<name>-<random>`, with the random part of the new
//      folder's temporary name.
//  4b. Rename the new folder to the target's name.
//
// The new folder is complete and durable by then. So any process that finds the old folder's new
// name, but no target, can do step 4b: finish_replacements(). Every reader does that before it
// reports that something is missing. The writer may still live; it then finds step 4b done.
//
// commit() does 3 to 6. Without commit(), the destructor removes the new folder and publishes
// nothing. Both folders are locked while the writer lives, so that a cleaner (remove_leftovers())
// leaves them. Only flat folders are written and replaced: nothing is removed recursively.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/file.h"

namespace cairn {

class AtomicFolder {
 public:
  // Throws AlreadyExistsError if something with that name exists, unless it is a flat folder and
  // `overwrite` is true. `suffix` is the random part of the temporary name, for a caller that lets
  // other processes write into the folder (storage/publish/attempt_folder.h). If `suffix` is empty,
  // a random part is drawn.
  AtomicFolder(FileSystem& files, FilePath path, bool overwrite, std::string_view suffix = {});
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  // Creates a file in the folder. Sync and close the file before commit().
  std::unique_ptr<WritableFile> create(const std::string& name, const CreateOptions& options);
  // Publishes. Call at most once.
  void commit();
  // The folder that holds the files until commit().
  FolderPath built() const { return temporary_->as_folder(); }

 private:
  bool make_temporary();
  FilePath replace();
  FilePath replace_in_two_steps();

  FileSystem& files_;
  FilePath path_;
  std::optional<FilePath> temporary_;  // until it has its final name
  bool overwrite_;
  std::shared_ptr<void> lock_;
};

// Does step 4b for every folder in `folder` that lacks only this step. If the new content is gone,
// gives the old content its name back. Returns the names that exist again. Throws StorageError.
std::vector<std::string> finish_replacements(FileSystem& files, const FolderPath& folder);

// As finish_replacements(), for the folder `path` alone. Does nothing if something has that name.
// Returns true if the folder exists again. Returns false for any error, because then the folder
// does not exist.
bool finish_replacement_of(FileSystem& files, const FilePath& path);

}  // namespace cairn
