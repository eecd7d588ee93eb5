// Finds the folders that can contain names of a format.
#pragma once

#include <string>
#include <vector>

#include "cairn/checkpoint/names.h"
#include "cairn/storage/object_store.h"

namespace cairn {

// Whether `path` is a folder. Returns false, too, if this user may not look at `path` and so could
// not write into it: for example, a link into another user's folder. Throws StorageError if the
// store cannot say now.
bool is_known_folder(ObjectStore& store, const std::string& path);
// Like the other is_known_folder(), for a name that was listed in `folder`. Asks the store only if
// the listing does not say.
bool is_known_folder(ObjectStore& store, const std::string& folder, const ListedName& listed);

// Whether `path` is a folder of torch.distributed.checkpoint, which is a checkpoint by itself,
// complete or not. The file `.metadata` in the folder shows this. Throws StorageError.
bool is_checkpoint_folder(ObjectStore& store, const std::string& path);

// Whether a folder without `.metadata` has files of ranks and no hidden file: it was copied
// without these. A killed save leaves hidden files.
bool lost_hidden_files(ObjectStore& store, const std::string& path);

// Returns `folder` itself as "", and for "ep{epoch}/ba{batch}.pt" only the folders "ep<number>" in
// `folder`, as paths relative to `folder`, in order. Folders whose names do not fit are not looked
// at. Throws StorageError if a fitting folder cannot be looked at or listed. A folder for which
// is_known_folder() is false is skipped.
std::vector<std::string> format_folders(ObjectStore& store, const std::string& folder,
                                        const NameFormat& format, const FormatVariables& dist);

}  // namespace cairn
