// Writes a torch.distributed.checkpoint folder of one rank: `__0_0.distcp`, then `.metadata`,
// published together (io/durable/atomic_folder.h).
#pragma once

#include <cstdint>
#include <string>

#include "cairn/storage/object_store.h"
#include "cairn/value.h"

#include "checkpoint/plan/save_job.h"

namespace cairn {

// For SaveJob::write. `scratch_folder` as for FolderPlan. Throws UnsupportedError for values that
// such a folder cannot hold. Throws AlreadyExistsError if something of that name exists, unless the
// job overwrites and the existing thing is a flat folder. After an error nothing has changed,
// except in a store without whole_folders. In such a store an older folder may be gone.
std::uint64_t write_dcp(ObjectStore& store, const SaveJob& job, const std::string& scratch_folder);
// Writes a value with default options. For tests.
std::uint64_t write_dcp(ObjectStore& store, const Value& value, const std::string& folder,
                        bool overwrite = false);

}  // namespace cairn
