#include "saving/places/name_rights.h"

#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/names/format_string.h"
#include "core/text/few_lines.h"
#include "core/text/printable.h"
#include "io/file.h"
#include "storage/listing.h"

namespace cairn {

void NameRights::look_at_constant_name(const SaverPlace& place) {
  if (has_counter(place.filename)) return;
  constant_path_ = place.path();
  if (const auto there = place.store->stat(constant_path_)) constant_version_ = there->version;
}

void NameRights::look_at_folder(const SaverPlace& place, const std::vector<SaverPlace>& uploads,
                                bool may_rewrite_own) {
  if (!overwrite_) {
    const FolderConflicts found = check_conflicts(place, saved_, may_rewrite_own);
    if (!has_looked_) {
      for (const SaverPlace& upload : uploads)
        check_conflicts(upload, SavedCheckpoints(), may_rewrite_own);
    }
    unexamined_ = {found.unexamined.begin(), found.unexamined.end()};
    begin(place, found);
    if (!unexamined_.empty()) {
      messages_.push_back(fmt::format(
          "warning: {} has many files under names that this run will write after batch {}; {} of "
          "them (such as {}) are only examined at the save of their name. Files that are not this "
          "run's are not overwritten",
          place.folder, place.now.batch, unexamined_.size(), *unexamined_.begin()));
    }
  }
  has_looked_ = true;
}

void NameRights::look_before_save(const SaverPlace& place, bool may_rewrite_own) {
  if (overwrite_ || has_looked_) return;
  begin(place, check_next_save(place, saved_, may_rewrite_own, /*may_be_loaded_file=*/true));
}

void NameRights::look_at_name(const SaverPlace& place, bool may_rewrite_own) {
  if (unexamined_.empty() || unexamined_.erase(place.path()) == 0) return;
  take(place, check_next_save(place, saved_, may_rewrite_own, /*may_be_loaded_file=*/false));
}

void NameRights::begin(const SaverPlace& place, const FolderConflicts& found) {
  if (place.store->may_be_far()) forget_further(place, found.replaceable);
  replaceable_.clear();
  take(place, found);
}

void NameRights::take(const SaverPlace& place, const FolderConflicts& found) {
  for (const FolderConflicts::File& file : found.replaceable) {
    if (place.store->may_be_far()) know_version(place, file);
    replaceable_.insert(file.path);
  }
  FewLines lines;
  for (const auto& [path, problem, version] : found.unusable) {
    if (lines.take()) {
      messages_.push_back("warning: no run can go on from " + printable_line(path) +
                          ", so it does not stop this run from saving: " + problem);
    }
    unusable_[path] = version;
  }
  if (lines.left_out() > 0) {
    messages_.push_back(
        fmt::format("warning: the same is true of {} more files there that this run "
                    "may overwrite; `cairn ls --verify` names them",
                    lines.left_out()));
  }
}

// Makes OwnObjects forget the versions of files that this saver wrote after place.now. Keeps those
// of `kept` and of files that are not examined yet.
void NameRights::forget_further(const SaverPlace& place,
                                const std::vector<FolderConflicts::File>& kept) {
  for (const std::string& path : saved_.paths()) {
    const bool may_replace =
        unexamined_.contains(path) ||
        std::ranges::find(kept, path, &FolderConflicts::File::path) != kept.end();
    if (saved_.is_saved_after(path, place.now) && !may_replace) own_.forget(path);
  }
}

void NameRights::know_version(const SaverPlace& place, const FolderConflicts::File& file) {
  // OwnObjects knows the versions of this job's own files. If another job has replaced such a file
  // since, this job may not replace it.
  if (saved_.is_saved_here(file.path, place.now)) return;
  if (saved_.is_saved_after(file.path, place.now)) return;
  // Anything written after the load is another job's, and this run did not resume from it.
  if (file.path != constant_path_) return own_.know(file.path, file.version);
  if (constant_version_) own_.know(file.path, *constant_version_);
}

// Keeps the file under another name, so that it can be examined. In a far store a folder cannot be
// renamed, so it is replaced.
void NameRights::put_obstacle_aside(const SaverPlace& place, const std::string& path,
                                    bool may_rewrite_own) {
  const auto known = unusable_.find(path);
  if (known == unusable_.end()) return clear_kind(place, path, place.saves_folders);
  const bool is_far = place.store->may_be_far();
  if (place.store->stat(path, /*follow=*/false)) {
    const auto aside = examine_again(place.store, path, place.run_name, may_rewrite_own);
    if (aside && !(is_far && place.saves_folders)) {
      const std::string ending = put_aside(*place.store, path, aside->ending).substr(path.size());
      messages_.push_back("renamed " + printable_line(path) + " to " + ending + ": " +
                          aside->problem);
    } else if (is_far) {
      replaceable_.insert(path);
      own_.know(path, known->second);
    }
  }
  unusable_.erase(known);
}

// A file under the link's name may be a checkpoint: a copy of a folder follows links, and has one.
void NameRights::put_link_obstacle_aside(const SaverPlace& place, const std::string& link) {
  if (link.empty() || place.store->may_be_far()) return;
  const auto there = place.store->stat(link, /*follow=*/false);
  if (!there || there->type == ObjectInfo::Type::kPointer) return;
  const std::string aside = put_aside(*place.store, link, kAsideInTheWay);
  messages_.push_back("warning: renamed " + printable_line(link) + " to " +
                      aside.substr(link.size()) +
                      ": it is no link, and this run's link has that name");
}

// Renames `path` if neither a save nor a link can replace it: a folder where a file is to be, a
// file where a folder is to be, or a folder with foreign files.
void NameRights::clear_kind(const SaverPlace& place, const std::string& path, bool makes_folder) {
  if (place.store->may_be_far()) return;
  const std::string problem = find_obstacle(*place.store, path, makes_folder);
  if (problem.empty()) return;
  const std::string aside = put_aside(*place.store, path, kAsideDamaged);
  messages_.push_back("warning: renamed " + printable_line(path) + " to " +
                      aside.substr(path.size()) + ": " + problem);
}

}  // namespace cairn
