// The names in a save folder that a run may overwrite, and the files that it renames instead.
//
//  1. Before the first batch, or before a save without a fit(), check_conflicts() sorts the files
//     under names that this run will still write. It refuses another run's checkpoints.
//  2. Files that were not examined then are examined before the save with their name.
//  3. A save renames an obstacle under its name: a file that no run can resume from, or a thing of
//     another kind (a folder where a file is to be).
//  4. In a far store, OwnObjects lets a save replace only versions that it knows. This class tells
//     it the versions that were found here.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "saving/places/saved_checkpoints.h"
#include "saving/places/saver_folder.h"
#include "storage/publish/own_objects.h"

namespace cairn {

class NameRights {
 public:
  // `overwrite`: everything may be replaced, and nothing is examined. All references must outlive
  // this object.
  NameRights(bool overwrite, const SavedCheckpoints& saved, OwnObjects& own,
             std::vector<std::string>& messages)
      : overwrite_(overwrite), saved_(saved), own_(own), messages_(messages) {}

  // For far stores, before anything is loaded. If checkpoint names have no counter, notes the
  // version of the object with their one name.
  void look_at_constant_name(const SaverPlace& place);
  // Step 1, for a fit() that begins at place.now, and for a save without a fit(). The second
  // function does nothing if the first was called. The first fit() also examines `uploads`, the
  // places to which loggers upload saves. A later fit() would meet this process's own uploads.
  // Both throw AlreadyExistsError and UnreadableError.
  void look_at_folder(const SaverPlace& place, const std::vector<SaverPlace>& uploads,
                      bool may_rewrite_own);
  void look_before_save(const SaverPlace& place, bool may_rewrite_own);
  // Step 2. Throws AlreadyExistsError.
  void look_at_name(const SaverPlace& place, bool may_rewrite_own);
  // Step 3, for a save at `path`, and for a link. Throws AlreadyExistsError if `path` turns out to
  // be a checkpoint of another run.
  void put_obstacle_aside(const SaverPlace& place, const std::string& path, bool may_rewrite_own);
  void put_link_obstacle_aside(const SaverPlace& place, const std::string& link);
  // Whether step 1 or 2 found `path` replaceable. That holds until a save of it is durable: a
  // failed save may leave its file to the next one.
  bool may_replace(const std::string& path) const { return replaceable_.contains(path); }
  void saved(const std::string& path) { replaceable_.erase(path); }

 private:
  void begin(const SaverPlace& place, const FolderConflicts& found);
  void take(const SaverPlace& place, const FolderConflicts& found);
  void forget_further(const SaverPlace& place, const std::vector<FolderConflicts::File>& kept);
  void know_version(const SaverPlace& place, const FolderConflicts::File& file);
  void clear_kind(const SaverPlace& place, const std::string& path, bool makes_folder);

  bool overwrite_;
  const SavedCheckpoints& saved_;
  OwnObjects& own_;
  std::vector<std::string>& messages_;
  bool has_looked_ = false;            // Step 1.
  std::set<std::string> replaceable_;  // Not yet replaced by a save.
  // No run can resume from them. With their versions.
  std::map<std::string, std::string> unusable_;
  std::set<std::string> unexamined_;  // See FolderConflicts.
  std::string constant_path_;         // Empty: names have counters, or the store is near.
  std::optional<std::string> constant_version_;  // The version before anything was loaded.
};

}  // namespace cairn
