// What one rank sees of the checkpoints of its job: what it says to agree_over_ranks().
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cairn/checkpoint/names.h"
#include "cairn/storage/object_store.h"

#include "checkpoint/plan/folder_manifest.h"
#include "checkpoint/ranks/agree_over_ranks.h"

namespace cairn {

// A file in a part: the checkpoint was published, on another machine. It holds the attempt's id,
// for which it counts.
inline constexpr const char* kPublishedMark = ".cairn_published";

// Of the checkpoint at `path`, a file or a folder, whole or in part, with the files that this rank
// has of it; nullopt when there is none. A folder is known by its manifest's attempt, and without
// one by its `.metadata`; a file by its length and its end, where a torch.save file has the
// checksums of all that is in it. `name`: what all ranks call it. StorageError.
std::optional<SeenCheckpoint> see_checkpoint(ObjectStore& store, const std::string& path,
                                             const std::string& name);

// Whether it has files of one rank's machine, and lacks those of others, which lie there.
bool is_part_of_one(ObjectStore& store, const std::string& path);

// Whether a folder of that attempt has the mark. StorageError.
bool is_marked(ObjectStore& store, const std::string& folder, const std::string& attempt);

// The manifest of a folder; nullopt where there is none, or it is damaged. StorageError.
std::optional<FolderManifest> manifest_of(ObjectStore& store, const std::string& folder);

struct SeePlace {
  std::string folder = {};
  std::vector<NameFormat> filenames = {};  // of checkpoints in the folder
  FormatVariables writer = {};             // variables_of_writer()
};

// Returns the checkpoints in the folder whose names fit one of the formats, by their paths from
// there. The furthest by its name comes first; there are at most 128 of each format. None if there
// is no such folder. If the disk does not give a checkpoint, its SeenCheckpoint::problem says so;
// the others are not affected. StorageError.
std::vector<SeenCheckpoint> see_checkpoints(ObjectStore& store, const SeePlace& place);

}  // namespace cairn
