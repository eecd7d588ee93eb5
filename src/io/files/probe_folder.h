// What the file system under a folder can do, found out by doing it.
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
  std::string detail = {};  // what was found, or why it does not work
};

// Makes a folder ".cairn-doctor-XXXXXX" there, tries everything in it, and removes it. When it
// cannot be made, that is the only answer. Throws nothing for what does not work.
std::vector<FolderProbe> probe_folder(const std::string& folder);

struct FolderSpace {
  std::uint64_t free_bytes = 0;  // for this user
  std::uint64_t total_bytes = 0;
  std::string file_system = {};  // "ext4", "nfs", "0x1234" for one that is not known by name
};
// StorageError.
FolderSpace folder_space(const std::string& folder);

}  // namespace cairn
