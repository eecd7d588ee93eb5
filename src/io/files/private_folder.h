// A folder for files that need a name for a while and that no other user may see. ScratchFile is
// for files that need no name.
#pragma once

#include <memory>
#include <string>

namespace cairn {

// Only this user may look into it. The destructor removes it with its content. The folder of a
// killed process is removed by the next process that makes one beside it. Not thread-safe.
class PrivateFolder {
 public:
  // Creates `PREFIX-XXXXXX` in `folder`; if that is empty, in $TMPDIR or else /var/tmp. Throws
  // StorageError.
  explicit PrivateFolder(const std::string& prefix, const std::string& folder = {});
  ~PrivateFolder();
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::shared_ptr<void> lock_;  // while the folder is used
};

}  // namespace cairn
