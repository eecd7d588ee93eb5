// A folder that is written in a store whose objects appear one by one.
//
// clang-format off
//  1. What readers know such a folder by (`.metadata`, an index of shards) is written last, and so
//     is whatever else is small and hidden: they are kept in memory until then. Without it the rest
//     is no checkpoint, wherever the writer was killed.
//  2. The other objects are written under their names, each under the condition that it is as it
//     was found in the beginning: of two writers of one folder the second stops.
//  3. commit() asks for every object that was written: it must have as many bytes as were sent.
//     Then come the hidden ones, and then what the folder is known by.
//  4. In place of an older folder: what that was known by is removed before anything of it is
//     replaced, so that nobody ever reads a mixture of the two. Killed between that and the end,
//     the writer leaves neither. What the older one had and the new one has not goes at the end.
//  5. What a killed writer left without (1) is no folder to be careful of: it is written over.
// clang-format on
#pragma once

#include <memory>
#include <string>

#include "cairn/storage/object_store.h"

namespace cairn {

// As ObjectStore::begin_folder(). `store` must outlive the result, whose destructor removes what
// was written and not committed, as far as it can.
std::unique_ptr<FolderWrite> write_folder_of_objects(ObjectStore& store, const std::string& name,
                                                     bool overwrite);

}  // namespace cairn
