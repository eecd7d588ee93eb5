// Finds what one rank sees of its job's checkpoints, for agree_over_ranks().
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cairn/checkpoint/names.h"
#include "cairn/storage/object_store.h"

#include "checkpoint/plan/folder_manifest.h"
#include "checkpoint/ranks/agree_over_ranks.h"

namespace cairn {

// A file in a part that marks the part: its checkpoint was published on another machine. The file
// holds the id of the attempt that it marks.
inline constexpr const char* kPublishedMark = ".cairn_published";

// Returns what this rank has of the checkpoint at `path`: a file or folder, whole or in part;
// nullopt if there is none. A folder is identified by the attempt in its manifest, or else by its
// `.metadata`. A file is identified by its length and its end, where a torch.save file has the
// checksums of its content. `name`: the checkpoint's name on all ranks. Throws StorageError.
std::optional<SeenCheckpoint> see_checkpoint(ObjectStore& store, const std::string& path,
                                             const std::string& name);

// Whether the checkpoint has files of one machine, and lacks files that are on other machines.
bool is_machine_part(ObjectStore& store, const std::string& path);

// Whether the folder has the mark of that attempt. Throws StorageError.
bool is_marked(ObjectStore& store, const std::string& folder, const std::string& attempt);

// The manifest of a folder; nullopt if there is no manifest or if it is damaged. Throws
// StorageError.
std::optional<FolderManifest> manifest_of(ObjectStore& store, const std::string& folder);

struct SeePlace {
  std::string folder = {};
  std::vector<NameFormat> filenames = {};  // of checkpoints in the folder
  FormatVariables writer = {};             // variables_of_writer()
};

// Returns the checkpoints in the folder whose names fit one of the formats, with paths relative to
// the folder, the furthest name first. There are at most 128 for each format, and none if there is
// no such folder. If the disk does not return a checkpoint, its SeenCheckpoint::problem says so;
// the others are not affected. Throws StorageError.
std::vector<SeenCheckpoint> see_checkpoints(ObjectStore& store, const SeePlace& place);

}  // namespace cairn
