// The spare file of recycling_local_store(); local_store() has none.
//
//  1. remember() notes the state of a file that was just published.
//  2. keep_as_spare() is called instead of a removal. It keeps the file as the spare
//     (io/durable/spare_file.h) if remember() knows the file and nothing of it has changed: name,
//     permissions, owner, attributes, bytes. So writing over the spare gives the same file as a new
//     one.
//  3. keep_as_spare() also checks at once that the file may be overwritten, so that no useless file
//     is kept. A file may not be overwritten while it is being read, or if the file system cannot
//     tell whether it is being read.
//  4. take_spare() gives the spare to the next write in the spare's folder. That write checks
//     again.
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
  bool keep_as_spare(const FilePath& path);
  // nullptr if there is no spare. If the spare is in another folder, removes it: it would wait
  // there for ever.
  std::unique_ptr<SpareFile> take_spare(const FilePath& path);

 private:
  FileSystem& files_;
  std::mutex mutex_;
  std::map<std::string, FileInfo> written_;  // by normal_path()
  std::unique_ptr<SpareFile> spare_;
};

}  // namespace cairn
