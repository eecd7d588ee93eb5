// A store that records which of its files a reader opens. So the store shows which files of a
// folder belong to a checkpoint.
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "storage/forwarding_store.h"

namespace cairn {

// Thread-safe.
class NotingStore final : public ForwardingStore {
 public:
  explicit NotingStore(std::shared_ptr<ObjectStore> under) : ForwardingStore(std::move(under)) {}

  std::shared_ptr<const ByteSource> open(const std::string& name) override;
  ListPage list(const std::string& folder, const std::string& page) override;

  // Returns the names that were listed but not opened, as paths below the first listed folder. A
  // folder is returned if nothing in it was opened. Empty if nothing was listed.
  std::vector<std::string> unread() const;

 private:
  mutable std::mutex mutex_;
  std::string root_;              // empty: nothing was listed
  std::set<std::string> listed_;  // paths
  std::set<std::string> opened_;  // paths, and the paths of all folders around them
};

}  // namespace cairn
