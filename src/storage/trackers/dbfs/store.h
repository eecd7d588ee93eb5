// dbfs:/ as a store: which names are in a volume, and which are artifacts of a run.
#pragma once

#include <memory>
#include <string>

#include "storage/trackers/dbfs/workspace.h"

namespace cairn::dbfs {

std::shared_ptr<ObjectStore> make_dbfs_store(const DbfsOptions& options, const Outside& outside);

// That of the environment: one as long as nothing in it changes, for with it goes what was learned,
// and which run was made. UsageError for "dbfs://host".
std::shared_ptr<ObjectStore> kept_dbfs_store(const std::string& root);

}  // namespace cairn::dbfs
