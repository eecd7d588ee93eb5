// What may go when a folder is replaced.
#pragma once

#include <set>
#include <string>

#include "cairn/storage/object_store.h"

namespace cairn {

// UsageError, naming the first, when the folder `name` holds a file that is no checkpoint's own, by
// its name: none that cairn's writers make, or that an index in it names, and none of `replaced`.
// A store whose folders are written object by object takes nothing else away (object_folder.h):
// nothing is looked at there. Nor when there is no such folder.
void check_only_own_files(ObjectStore& store, const std::string& name,
                          const std::set<std::string>& replaced = {});

}  // namespace cairn
