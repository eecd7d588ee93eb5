// The names of a run's checkpoints in each form in which it may save them. A run may change its
// form between two starts: then those of the other forms are its own, too.
#pragma once

#include <string>
#include <vector>

#include "cairn/checkpoint/names.h"

namespace cairn {

// The default name of a sharded checkpoint (FSDPConfig).
inline constexpr const char* kShardedFolders = "ep{epoch}-ba{batch}";

// A tar of each rank: `filename` with ".tar" at its end, unless it is called as a tar already.
std::string as_tar_format(const std::string& filename);

// A folder that all ranks write: `name`, in the folders that `filename` has.
std::string as_folder_format(const std::string& filename, const std::string& name);

// One file, a folder of all ranks, a tar of each rank; each name once.
std::vector<NameFormat> names_of_forms(const std::string& filename,
                                       const std::string& sharded_folders);

}  // namespace cairn
