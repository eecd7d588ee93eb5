// The files that belong to a checkpoint that is a folder. A folder with other files is neither
// removed nor replaced, so that no file of another program or of a person is lost.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "cairn/storage/object_store.h"

namespace cairn {

// The first foreign file or folder in the folder `name`. nullopt if there is none, or no such
// folder. A name is foreign if cairn's writers do not make it, no index of shards in the folder
// names it, and it is not in `replaced`. Throws StorageError.
std::optional<std::string> foreign_file_in(ObjectStore& store, const std::string& name,
                                           const std::set<std::string>& replaced = {});

// Throws UsageError, naming the first foreign file, if replacing the folder `name` would lose a
// foreign file. Does nothing in a store whose folders are written object by object: in such a
// store, replacing a folder loses no foreign file (object_folder.h).
void check_only_own_files(ObjectStore& store, const std::string& name,
                          const std::set<std::string>& replaced = {});

// ObjectStore::remove_folder() for a checkpoint. If the folder contains a foreign file, throws
// UsageError and removes nothing.
bool remove_checkpoint_folder(ObjectStore& store, const std::string& name);

}  // namespace cairn
