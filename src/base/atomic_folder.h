// Publishing a folder so that its name never stands for a part of it.
//
//  1. Create the folder `.cairn-tmp-<name>-<random>` beside the target.
//  2. Write the files into it, each synced when it is closed.
//  3. fsync the folder.
//  4. When a folder stands in the way and may be replaced: rename it to a temporary name. There is
//     nothing of that name before step 5.
//  5. rename the new folder to the target's name.
//  6. fsync the parent: until then a power cut may undo 4 and 5 together.
//  7. Remove the old folder.
//
// commit() does 3 to 7; the destructor removes what was built and publishes nothing. Only flat
// folders are written and replaced: nothing is removed recursively.
#pragma once

#include <functional>
#include <string>

#include "base/file.h"

namespace cairn {

class AtomicFolder {
 public:
  // AlreadyExistsError when something of that name exists, unless `overwrite` and it is a flat
  // folder.
  AtomicFolder(FileSystem& files, const std::string& path, bool overwrite);
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  // Creates a file in it, lets `fill` write, syncs and closes it.
  void add(const std::string& name, std::uint64_t expected_bytes,
           const std::function<void(ByteSink&)>& fill);
  // Publishes. At most once.
  void commit();
  // Where the files are until commit().
  const std::string& temporary_path() const { return temporary_; }

 private:
  FileSystem& files_;
  std::string path_;
  std::string temporary_;
  bool overwrite_;
};

}  // namespace cairn
