// The spare file, which recycling_local_store() has and local_store() has not.
//
//  1. remember() notes the state of a file that was just published.
//  2. retire() is called instead of a removal. It keeps the file as the spare
//     (io/durable/spare_file.h) if remember() knows it and nothing has changed: name, permissions,
//     owner, attributes, bytes. So writing over it gives the same file as a new one.
//  3. Whether the file may be overwritten is asked at once, so that none is kept in vain. It may
//     not on file systems that do not tell, or while it is being read.
//  4. take_spare() gives the spare to the next write in its folder, which asks again.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "io/durable/spare_file.h"
#include "io/file.h"

namespace cairn {

// Thread-safe. Its destructor removes the spare.
class Recycler {
 public:
  explicit Recycler(FileSystem& files) : files_(files) {}

  void remember(const FilePath& path);
  // True: the name is free, durably. False: nothing was done. Throws StorageError.
  bool retire(const FilePath& path);
  // nullptr if there is no spare. Removes a spare from another folder, where it would wait for
  // ever.
  std::unique_ptr<SpareFile> take_spare(const FilePath& path);

 private:
  FileSystem& files_;
  std::mutex mutex_;
  std::map<std::string, FileInfo> written_;  // by normal_path()
  std::unique_ptr<SpareFile> spare_;
};

}  // namespace cairn
