// Commands that look into folders: one folder, several, or with -r those below them, too.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "cairn/storage/object_store.h"

#include "checkpoint/folder/folders_below.h"
#include "cli/view/console.h"
#include "core/text/json_fwd.h"

namespace cairn::cli {

struct FolderArgs {
  std::vector<std::string> folders;
  bool recursive = false;
};

// Declares FOLDER... and -r.
void add_folders(CLI::App& app, FolderArgs& args);
void add_recursive(CLI::App& app, bool& recursive);

// Looks into a folder. Returns the names of the folders in it that were not looked into
// (FolderListing::folders).
using LookIntoFolder = std::function<std::vector<std::string>(const std::string& folder)>;

// Calls `look` for the folder. If `recursive`, also for each folder that `look` returns, and so on.
void walk_folders(const std::string& folder, bool recursive, const LookIntoFolder& look);

// Whether `place` is a folder that is not a checkpoint itself.
bool is_plain_folder(const std::string& place);

// Returns the good checkpoint that is furthest in training, among the newest hundred files of a
// plain folder. If there is none, throws NotFoundError, which names the folders below that hold
// checkpoints.
std::string newest_in(const std::string& folder);

// Prints to `err` which folders hold checkpoints that were not looked at. Prints nothing if there
// are none.
void tell_below(const FoldersBelow& below, const Console& console);
// The same list as part of a message: "run/full (2 by name), run/weights (1 by name)".
std::string list_below(const FoldersBelow& below);
Json folders_json(const FoldersBelow& below);

}  // namespace cairn::cli
