// Formats of the names of a run's checkpoints, for each form in which the run may save them. A run
// may change the form between two starts. Checkpoints in the other forms still belong to the run.
#pragma once

#include <string>
#include <vector>

#include "cairn/checkpoint/names.h"

namespace cairn {

// The default name of a sharded checkpoint (FSDPConfig).
inline constexpr const char* kShardedFolders = "ep{epoch}-ba{batch}";

// The format of a tar of each rank: `filename` with ".tar" added, unless `filename` already names a
// tar.
std::string as_tar_format(const std::string& filename);

// The format of a folder that all ranks write: `name`, in the folders of `filename`.
std::string as_folder_format(const std::string& filename, const std::string& name);

// The formats for one file, a folder of all ranks and a tar of each rank, without duplicates.
std::vector<NameFormat> names_of_forms(const std::string& filename,
                                       const std::string& sharded_folders);

}  // namespace cairn
