// A folder that is written in a store whose objects appear one by one.
//
// clang-format off
//  1. The files by which readers know such a folder (`.metadata`, an index of shards) are markers.
//     Markers and other small hidden files are written last, and kept in memory until then. Without
//     a marker the other files are no checkpoint, at whatever point the writer was killed.
//  2. The other objects are written under their names, on condition that each is as it was found in
//     the beginning. So if two writers write one folder, the second one stops.
//  3. The writer checks every object right after the object's commit, and commit() checks each
//     object again: it must have the size that was sent, and still the same version. Then the
//     hidden files are written, and last the markers.
//  4. If an older folder is replaced, its markers are removed as late as possible: right before one
//     of its objects is replaced, or the new folder is published. So no reader ever gets a mixture.
//     If the writer is killed after the markers were removed, neither checkpoint remains. At the
//     end the older files that the new folder lacks are removed. Files that no writer of such a
//     checkpoint makes, judged by their names, stay. A subfolder is refused.
//  5. A folder without a marker, left by a killed writer, is overwritten.
//  6. A writer that fails removes those of its objects that have not changed since. The writer
//     removes nothing if it, or another program, has begun to write a marker: such a folder is
//     complete.
// clang-format on
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cairn/storage/object_store.h"

namespace cairn {

// Whether an object of this name is a marker, which is written last and removed first: `.metadata`
// of torch.distributed.checkpoint, or an index of shards.
bool is_folder_marker(const std::string& name);

// Whether the object is a marker, or another file that a writer of such a folder makes.
bool is_folder_file(const std::string& name, const ObjectInfo& info);

enum class FolderState : std::uint8_t {
  kLeftBehind,  // only files that a writer makes before the markers
  kMarked,      // such files and a marker
  kOther,
};

// Judges the folder `name` by the names directly in it. Throws like ObjectStore::list().
FolderState state_of_folder(ObjectStore& store, const std::string& name);

// Like ObjectStore::begin_folder(). `store` must outlive the result. Its destructor removes what
// was written and not committed, as far as it can.
std::unique_ptr<FolderWrite> write_folder_of_objects(ObjectStore& store, const std::string& name,
                                                     bool overwrite);

}  // namespace cairn
