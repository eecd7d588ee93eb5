// A store that notes what a reader opens in it: which files of a folder a checkpoint consists of.
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "storage/forwarding_store.h"

namespace cairn {

// Safe from several threads.
class NotingStore final : public ForwardingStore {
 public:
  explicit NotingStore(std::shared_ptr<ObjectStore> under) : ForwardingStore(std::move(under)) {}

  std::shared_ptr<const ByteSource> open(const std::string& name) override;
  ListPage list(const std::string& folder, const std::string& page) override;

  // Returns the names that were listed and not opened, as paths below the first folder that was
  // listed; a folder if nothing in it was opened. Empty if nothing was listed.
  std::vector<std::string> unread() const;

 private:
  mutable std::mutex mutex_;
  std::string root_;              // empty: nothing was listed
  std::set<std::string> listed_;  // paths
  std::set<std::string> opened_;  // paths, with those of the folders that they lie in
};

}  // namespace cairn
