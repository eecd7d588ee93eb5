// dbfs:/ as a store, which decides which names are in a volume, and which are artifacts of a run.
#pragma once

#include <memory>
#include <string>

#include "storage/trackers/dbfs/workspace.h"

namespace cairn::dbfs {

std::shared_ptr<ObjectStore> make_dbfs_store(const DbfsOptions& options, const Outside& outside);

// The store that the environment describes. Returns the same store as long as the environment does
// not change, since the store remembers what it learned, and which run it made. Throws UsageError
// for "dbfs://host".
std::shared_ptr<ObjectStore> kept_dbfs_store(const std::string& root);

}  // namespace cairn::dbfs
