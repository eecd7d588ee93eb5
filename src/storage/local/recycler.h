// What recycling_local_store() has besides a local_store(): one spare file.
//
//  1. remember() notes how a file stands that was just published.
//  2. retire(), in place of a removal, keeps a file as the spare (io/durable/spare_file.h), if it
//     is one of these and nothing was done to it since: no other name, no other permissions or
//     owner, no attribute, no byte. So the file that is written over it is what a new one would be.
//  3. Whether it may be overwritten is asked at once, so that none is kept for nothing: not on file
//     systems that do not tell, nor when it is being read.
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
  // True: nothing has this name any more, durably. False: nothing was done. StorageError.
  bool retire(const FilePath& path);
  // nullptr when there is none. One of another folder is removed: it would wait there for ever.
  std::unique_ptr<SpareFile> take_spare(const FilePath& path);

 private:
  FileSystem& files_;
  std::mutex mutex_;
  std::map<std::string, FileInfo> written_;  // by normal_path()
  std::unique_ptr<SpareFile> spare_;
};

}  // namespace cairn
