// The checkpoints of a run: what `cairn ls` shows and `cairn prune` decides on.
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
  kGood,     // as far as was asked to be checked
  kDamaged,  // its bytes are not what was written
  kRefused,  // not of a kind that can be read, or not readable now
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
  std::string problem = {};  // one line, when the condition is not good
  SourceInfo source = {};    // `format` is empty when it could not be opened
  // Kind, run, position. No kind when it is not readable or not looked into; then the position, if
  // there is one, has the epoch and the batch that the name says.
  CheckpointInfo info = {.kind = ""};
  std::vector<std::string> links = {};  // names of the links in the folder that point at it
  bool is_pinned = false;               // a file NAME.pin stands beside it
};

struct FolderListing {
  std::vector<ListedCheckpoint> checkpoints;  // by position in training, furthest last
  std::size_t passed_over = 0;                // files and folders that are no checkpoints
  std::size_t not_looked_into = 0;  // ListLimits; those with a checkpoint's name are listed
  // Names of folders that are no checkpoints by themselves, or were not looked into, sorted.
  // Nothing in them was looked at.
  std::vector<std::string> folders;
};

// How much of a folder is looked into, from the newest file backwards. Any amount when 0.
struct ListLimits {
  std::size_t files = 0;             // that are opened
  std::uint64_t expanded_bytes = 0;  // of compressed files, after which no more are opened
  bool names_first = false;          // files with names of checkpoints count as the newest
};

struct ListOptions {
  Verify verify = Verify::kQuick;
  // For stores where opening a file costs requests: what the listing and the name tell is enough. A
  // file whose name says epoch and batch is not opened, and has this position. A file without a
  // checkpoint's name is not opened, nor listed. Folders, and files of other names, are opened.
  bool trust_names = false;
  // Also decode those that say they are "full": what verifies, but is no training state, is
  // damaged.
  bool check_state = false;
  ListLimits limits = {};
  std::function<void(std::uint64_t bytes)> on_progress = nullptr;  // OpenOptions::on_progress
  std::shared_ptr<ObjectStore> store = nullptr;                    // local_store() when null
};

// Looks at what lies directly in `folder`, whatever its names: files, and folders that are
// checkpoints. What has a checkpoint's name and cannot be opened is listed as damaged or refused:
// nothing that lies there, whatever it is, ends the listing of the others. Those without a position
// come first. NotFoundError, UsageError when it is no folder.
FolderListing list_checkpoints(const std::string& folder, const ListOptions& options = {});

// Opens one that list_checkpoints() has not looked into. nullopt: it is gone, or no checkpoint.
std::optional<ListedCheckpoint> look_into(ListedCheckpoint listed, const ListOptions& options);

// Whether people would take a file of this name for a checkpoint.
bool has_checkpoint_name(std::string_view name);

// The name of the file that pins the checkpoint of that name against pruning.
std::string pin_name(const std::string& name);

}  // namespace cairn
