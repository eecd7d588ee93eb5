// The folders that the names of a format lie in.
#pragma once

#include <string>
#include <vector>

#include "cairn/checkpoint/names.h"
#include "cairn/storage/object_store.h"

namespace cairn {

// False also of what this user may not look at, and so could not write into: a link into somebody
// else's folder, say. StorageError when it cannot be told now.
bool is_known_folder(ObjectStore& store, const std::string& path);
// The same for a name that was listed in `folder`. Asks the store only if the listing does not
// tell.
bool is_known_folder(ObjectStore& store, const std::string& folder, const ListedName& listed);

// Whether it is a folder that is a checkpoint by itself (torch.distributed.checkpoint's), whole or
// not: its `.metadata` is there. StorageError.
bool is_checkpoint_folder(ObjectStore& store, const std::string& path);

// `folder`, as "", and for "ep{epoch}/ba{batch}.pt" the folders "ep<number>" in it, and no others:
// by their paths from `folder`, in order. What does not fit is not looked at. StorageError when one
// that was found cannot be looked at or listed; what is_known_folder() is not told of is passed
// over.
std::vector<std::string> format_folders(ObjectStore& store, const std::string& folder,
                                        const NameFormat& format, const FormatVariables& dist);

}  // namespace cairn
