// Writing a torch.distributed.checkpoint folder of one rank: `__0_0.distcp`, then `.metadata`,
// published together (io/durable/atomic_folder.h).
#pragma once

#include <cstdint>
#include <string>

#include "cairn/storage/object_store.h"
#include "cairn/value.h"

#include "checkpoint/plan/save_job.h"

namespace cairn {

// SaveJob::write. UnsupportedError for what such a folder cannot hold; AlreadyExistsError when
// something of that name exists, unless the job overwrites and it is a flat folder. On an error
// nothing changed; in a store without whole_folders an older folder may be gone then.
// `scratch_folder` as for FolderPlan.
std::uint64_t write_dcp(ObjectStore& store, const SaveJob& job, const std::string& scratch_folder);
// The same of a value: for tests.
std::uint64_t write_dcp(ObjectStore& store, const Value& value, const std::string& folder,
                        bool overwrite = false);

}  // namespace cairn
