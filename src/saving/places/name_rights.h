// The names of a save folder that a run may write over, and what it renames before it does.
//
//  1. Before the first batch, or before a save that no fit() precedes, check_conflicts() sorts what
//     lies under names that this run has still to write. It refuses another run's checkpoints.
//  2. A name that was not looked into then is looked into when its save comes.
//  3. A save renames what is in the way of its name: what nobody can go on from, and what is of
//     another kind (a folder where a file is to be).
//  4. In a store that is far away OwnObjects lets a save replace only versions that it knows. This
//     class tells it those that were found here.
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
  // `overwrite`: everything may be replaced, and nothing is looked into. All that is passed by
  // reference must outlive this object.
  NameRights(bool overwrite, const SavedCheckpoints& saved, OwnObjects& own,
             std::vector<std::string>& messages)
      : overwrite_(overwrite), saved_(saved), own_(own), messages_(messages) {}

  // Far away, before anything is loaded: notes the version of the object that has the one name of
  // all checkpoints, if their name has no counter.
  void look_at_constant_name(const SaverPlace& place);
  // Step 1, for a fit() that begins at place.now, and for a save without a fit(). The second does
  // nothing when the first was called. AlreadyExistsError; UnreadableError.
  void look_at_folder(const SaverPlace& place, bool may_rewrite_own);
  void look_before_save(const SaverPlace& place, bool may_rewrite_own);
  // Step 2. AlreadyExistsError.
  void look_at_name(const SaverPlace& place, bool may_rewrite_own);
  // Step 3, for a save at `path`, and for a link. AlreadyExistsError when what is at `path` turned
  // out to be a checkpoint of another run.
  void clear_way(const SaverPlace& place, const std::string& path, bool may_rewrite_own);
  void clear_way_of_link(const SaverPlace& place, const std::string& link);
  // Whether step 1 or 2 found `path` replaceable. It is so until a save of it is durable: one that
  // fails may leave its file to the next.
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
  bool has_looked_ = false;                      // step 1
  std::set<std::string> replaceable_;            // not by a save yet
  std::map<std::string, std::string> unusable_;  // nobody can go on from them; with their versions
  std::set<std::string> not_looked_at_;          // FolderConflicts's
  std::string constant_path_;                    // empty: names have counters, or it is near
  std::optional<std::string> constant_version_;  // of what was there before anything was loaded
};

}  // namespace cairn
