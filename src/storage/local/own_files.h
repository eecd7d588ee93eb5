// The files that belong to a checkpoint that is a folder. A folder with other files in it is
// neither removed nor replaced, so that no file of another program or of a person is lost.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "cairn/storage/object_store.h"

namespace cairn {

// The first foreign file or folder in the folder `name`; nullopt if there is none, or no such
// folder. Foreign is every name that cairn's writers do not make, that no index of shards in the
// folder names, and that is not in `replaced`. StorageError.
std::optional<std::string> foreign_file_in(ObjectStore& store, const std::string& name,
                                           const std::set<std::string>& replaced = {});

// Throws UsageError, naming the first foreign file, if replacing the folder `name` would lose one.
// Does nothing in a store whose folders are written object by object: replacing loses none there
// (object_folder.h).
void check_only_own_files(ObjectStore& store, const std::string& name,
                          const std::set<std::string>& replaced = {});

// ObjectStore::remove_folder() of a checkpoint. UsageError, with nothing removed, when it holds a
// foreign file.
bool remove_checkpoint_folder(ObjectStore& store, const std::string& name);

}  // namespace cairn
