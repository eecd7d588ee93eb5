// The checkpoints of a folder, as `cairn ls` and `cairn report` show them.
#pragma once

#include <string>

#include "checkpoint/folder/folders_below.h"
#include "checkpoint/folder/list_checkpoints.h"
#include "cli/view/console.h"
#include "core/text/json_fwd.h"

namespace cairn::cli {

struct ListingArgs {
  bool verify = false;     // check every byte of all checkpoints
  bool all = false;        // open all files, not only the newest hundred
  bool recursive = false;  // the caller looks into the folders below
};

// The listing of one folder.
struct ListedFolder {
  std::string folder;  // without secrets, for messages
  FolderListing listing;
  bool trusts_names = false;  // the store is far away, and opening a file costs requests
  FoldersBelow below = {};    // empty with -r
};

// Lists the checkpoints that are directly in the folder `place`. Shows a bar while it reads.
ListedFolder list_folder(const std::string& place, const ListingArgs& args, const Console& console);

// Whether a link of such a name points at it.
bool is_latest(const ListedCheckpoint& listed);
// A row of `cairn ls --json`.
Json listed_json(const ListedCheckpoint& listed);

}  // namespace cairn::cli
