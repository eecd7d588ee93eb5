#include "checkpoint/folder/folders_below.h"

#include <algorithm>
#include <deque>
#include <map>

#include "cairn/error.h"

#include "checkpoint/folder/list_checkpoints.h"
#include "io/file.h"
#include "storage/listing.h"
#include "storage/object_folder.h"

namespace cairn {
namespace {

constexpr std::size_t kMaxFolders = 100;

bool is_checkpoint(const std::vector<ListedName>& names) {
  return std::any_of(names.begin(), names.end(),
                     [](const ListedName& listed) { return is_folder_marker(listed.name); });
}

class BelowSearch {
 public:
  explicit BelowSearch(ObjectStore& store) : store_(store) {}

  void add(const std::string& folder) { next_.push_back(folder); }

  FoldersBelow run() {
    bool is_complete = true;
    for (std::size_t listed = 0; !next_.empty() && listed < kMaxFolders; ++listed) {
      const std::string folder = next_.front();
      next_.pop_front();
      try {
        look_at(folder);
      } catch (const StorageError&) {
        is_complete = false;
      }
    }
    FoldersBelow below{.found = {}, .is_complete = is_complete && next_.empty()};
    for (const auto& [path, checkpoints] : found_) {
      below.found.push_back({.path = path, .checkpoints = checkpoints});
    }
    return below;
  }

 private:
  void look_at(const std::string& folder) {
    const std::vector<ListedName> names = list_all_if_any(store_, folder);
    if (is_checkpoint(names)) {
      ++found_[parent_path(folder)];
      return;
    }
    for (const ListedName& listed : names) {
      if (has_checkpoint_name(listed.name)) {
        ++found_[folder];
        continue;
      }
      const auto info = info_of(store_, folder, listed);
      const bool is_folder = info && info->type == ObjectInfo::Type::kFolder;
      if (is_folder) add(join_path(folder, listed.name));
    }
  }

  ObjectStore& store_;
  std::deque<std::string> next_;
  std::map<std::string, std::size_t> found_;
};

}  // namespace

FoldersBelow find_folders_below(ObjectStore& store, const std::string& folder,
                                const std::vector<std::string>& folders) {
  BelowSearch search(store);
  for (const std::string& name : folders) {
    search.add(join_path(folder, name));
  }
  FoldersBelow below = search.run();
  // A checkpoint that is a folder counts in the folder around it. The caller has already looked at
  // checkpoints in `folder` itself.
  const std::string itself = parent_path(join_path(folder, "x"));
  std::erase_if(below.found, [&](const FolderBelow& one) { return one.path == itself; });
  return below;
}

}  // namespace cairn
