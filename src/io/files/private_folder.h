// A folder for what must have a name for a while and that nobody else is to see, as ScratchFile is
// for what needs none.
#pragma once

#include <memory>
#include <string>

namespace cairn {

// Only this user may look into it. Gone, with what is in it, with this object; that of a process
// that was killed is removed by the next one that makes a folder beside it. Not thread-safe.
class PrivateFolder {
 public:
  // `PREFIX-XXXXXX` in `folder`; when that is empty, in $TMPDIR or else /var/tmp. StorageError.
  explicit PrivateFolder(const std::string& prefix, const std::string& folder = {});
  ~PrivateFolder();
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::shared_ptr<void> lock_;  // as long as it is used
};

}  // namespace cairn
