// Lists the checkpoints of a run: `cairn ls` shows them, and `cairn prune` decides on them.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/checkpoint/checkpoint.h"

#include "checkpoint/open/source.h"

namespace cairn {

enum class Condition : std::uint8_t {
  kGood,     // as far as the caller asked to check
  kDamaged,  // its bytes are not those that were written
  kRefused,  // a format that cannot be read, or not readable now
  kNotLookedInto,
};

struct ListedCheckpoint {
  std::string name;  // in the folder
  std::string path;
  bool is_folder = false;
  std::uint64_t bytes = 0;  // of all its files
  std::chrono::system_clock::time_point modified = {};
  std::string version = {};  // ObjectInfo::version
  Condition condition = Condition::kGood;
  std::string problem = {};  // one line if the condition is not good
  SourceInfo source = {};    // `format` is empty if it could not be opened
  // Kind, run and position. The kind is empty if the checkpoint is not readable or not looked into.
  // In that case the position, if any, has the epoch and batch of the name.
  CheckpointInfo info = {.kind = ""};
  std::vector<std::string> links = {};  // names of the links in the folder that point at it
  bool is_pinned = false;               // there is a file NAME.pin beside it
};

struct FolderListing {
  std::vector<ListedCheckpoint> checkpoints;  // by position in training, furthest last
  std::size_t passed_over = 0;                // files and folders that are not checkpoints
  // Files not opened because of ListLimits. Those with a checkpoint's name are listed.
  std::size_t not_looked_into = 0;
  // Sorted names of folders that are not checkpoints by themselves, or were not looked into.
  // Nothing in them was looked at.
  std::vector<std::string> folders;
};

// How many files of a folder are looked into, the newest first. 0: no limit.
struct ListLimits {
  std::size_t files = 0;  // the largest number of opened files
  // expanded bytes of compressed files after which no more are opened
  std::uint64_t expanded_bytes = 0;
  bool names_first = false;  // files with names of checkpoints come first
  bool opens_nothing = false;
};

struct ListOptions {
  Verify verify = Verify::kQuick;
  // For stores where opening a file costs requests. A file whose name has epoch and batch is not
  // opened, and gets the position in its name. A file without a checkpoint's name is neither opened
  // nor listed. Folders and files with other names are opened.
  bool trust_names = false;
  // Also decode checkpoints that claim to be "full". A checkpoint that verifies but is not a
  // training state counts as damaged.
  bool check_state = false;
  ListLimits limits = {};
  std::function<void(std::uint64_t bytes)> on_progress = nullptr;  // OpenOptions::on_progress
  std::shared_ptr<ObjectStore> store = nullptr;                    // null: local_store()
};

// Lists the files directly in `folder` and the folders that are checkpoints, whatever their names.
// An entry with a checkpoint's name that cannot be opened is listed as damaged or refused. No
// entry, whatever it is, keeps the other entries from being listed. Checkpoints without a position
// come first. Throws NotFoundError, and UsageError if `folder` is not a folder.
FolderListing list_checkpoints(const std::string& folder, const ListOptions& options = {});

// Opens an entry that list_checkpoints() has not looked into. nullopt: the entry is gone, or is not
// a checkpoint.
std::optional<ListedCheckpoint> look_into(ListedCheckpoint listed, const ListOptions& options);

// Whether a person would take a file of this name for a checkpoint.
bool has_checkpoint_name(std::string_view name);

// The name of the file that pins the checkpoint `name` against pruning.
std::string pin_name(const std::string& name);

}  // namespace cairn
