// A folder that is written in a store whose objects appear one by one.
//
// clang-format off
//  1. What readers know such a folder by (`.metadata`, an index of shards) is written last, and so
//     is whatever else is small and hidden: they are kept in memory until then. Without it the rest
//     is no checkpoint, wherever the writer was killed.
//  2. The other objects are written under their names, each under the condition that it is as it
//     was found in the beginning: of two writers of one folder the second stops.
//  3. Every object that was written is looked at right behind its commit, and again by commit(): it
//     must have as many bytes as were sent, and be of the same version still. Then come the hidden
//     ones, and then what the folder is known by.
//  4. In place of an older folder: what that was known by is removed as late as possible, right
//     before an object of it is replaced or the new one is published, so that nobody ever reads a
//     mixture of the two. Killed between that and the end, the writer leaves neither. The older
//     one's files that the new one has not go at the end; what is not named as such a checkpoint's
//     files are stays. A folder inside is refused.
//  5. What a killed writer left without (1) is no folder to be careful of: it is written over.
//  6. A writer that fails removes what it wrote, as long as it is what it wrote; and nothing once
//     it has begun to write (1), or somebody else has: such a folder is complete.
// clang-format on
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cairn/storage/object_store.h"

namespace cairn {

// Whether readers know a folder by an object of this name: what is written last, and removed first.
// `.metadata` of torch.distributed.checkpoint, the index of shards.
bool is_folder_marker(const std::string& name);

// Whether it is one of those, or another file that a writer of such a folder makes.
bool is_folder_file(const std::string& name, const ObjectInfo& info);

enum class FolderState : std::uint8_t {
  kLeftBehind,  // nothing but what a writer of such a folder makes before (1)
  kMarked,      // nothing but that and (1)
  kOther,
};

// What is directly in the folder `name` by its names. Throws as ObjectStore::list().
FolderState state_of_folder(ObjectStore& store, const std::string& name);

// As ObjectStore::begin_folder(). `store` must outlive the result, whose destructor removes what
// was written and not committed, as far as it can.
std::unique_ptr<FolderWrite> write_folder_of_objects(ObjectStore& store, const std::string& name,
                                                     bool overwrite);

}  // namespace cairn
