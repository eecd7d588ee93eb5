// Finds out what the file system of a folder can do, by doing it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cairn {

struct FolderProbe {
  const char* name;     // "create", "symlink": stable, for programs
  const char* meaning;  // what cairn does with it
  bool works = false;
  bool is_needed = false;   // without it checkpoints cannot be saved there safely
  std::string detail = {};  // the finding, or why it does not work
};

// Makes a folder ".cairn-doctor-XXXXXX" in `folder`, tries everything in it, and removes it. If
// this folder cannot be made, the result is only that failure. Throws nothing for a failed probe.
std::vector<FolderProbe> probe_folder(const std::string& folder);

struct FolderSpace {
  std::uint64_t free_bytes = 0;  // for this user
  std::uint64_t total_bytes = 0;
  std::string file_system = {};  // "ext4", "nfs"; "0x1234" if the name is unknown
};
// Throws StorageError.
FolderSpace folder_space(const std::string& folder);

}  // namespace cairn
