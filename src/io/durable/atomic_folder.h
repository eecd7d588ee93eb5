// Publishing a folder so that its name never stands for a part of it.
//
//  1. Create the folder `.cairn-tmp-<name>-<random>` beside the target.
//  2. Write the files into it, each synced before it is closed.
//  3. fsync the folder.
//  4. Nothing of that name: rename it to the target's name. A folder that may be replaced: exchange
//     the two, in one step.
//  5. fsync the parent: until then a power cut may undo 4.
//  6. Remove the old folder, which has the temporary name now.
//
// Where the file system cannot exchange two names (NFS), 4 is two steps, between which the name
// stands for nothing:
//
//  4a. rename the old folder to `.cairn-old-<name>-<random>`, with the random part of the new one.
//  4b. rename the new folder to the target's name.
//
// The new folder is complete and durable by then, so that whoever finds the first name and not the
// target's can do 4b: finish_replacements(). Every reader does, before it says that something is
// not there. It may do so while the writer lives, who then finds it done.
//
// commit() does 3 to 6; the destructor removes what was built and publishes nothing. Both folders
// are locked while the writer lives, so that a cleaner (remove_leftovers()) leaves them. Only flat
// folders are written and replaced: nothing is removed recursively.
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
  // AlreadyExistsError when something of that name exists, unless `overwrite` and it is a flat
  // folder. `suffix`: the random part of the temporary name, for who lets other processes write
  // into the folder (storage/publish/attempt_folder.h); drawn when empty.
  AtomicFolder(FileSystem& files, FilePath path, bool overwrite, std::string_view suffix = {});
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  // Creates a file in it, which has to be synced and closed before commit().
  std::unique_ptr<WritableFile> create(const std::string& name, const CreateOptions& options);
  // Publishes. At most once.
  void commit();
  // Where the files are until commit().
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

// Does step 4b for every folder in `folder` of which only that is missing; gives it the old content
// back when the new one is gone. Returns the names that are there again. StorageError.
std::vector<std::string> finish_replacements(FileSystem& files, const FolderPath& folder);

// The same for the folder `path` alone, when there is nothing of that name. True when it is there
// now. Says false for any error: then it is not there.
bool finish_replacement_of(FileSystem& files, const FilePath& path);

}  // namespace cairn
