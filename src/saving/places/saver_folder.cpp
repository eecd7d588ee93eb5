#include "saving/places/saver_folder.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <map>
#include <set>

#include "cairn/error.h"

#include "checkpoint/folder/conflict.h"
#include "checkpoint/folder/format_folders.h"
#include "checkpoint/folder/inspect_file.h"
#include "checkpoint/open/source.h"
#include "checkpoint/open/training_info.h"
#include "checkpoint/ranks/see_checkpoints.h"
#include "core/text/printable.h"
#include "io/file.h"
#include "io/read_fault.h"
#include "storage/listing.h"

namespace cairn {
namespace {

// Limits how many files are examined: a folder may have any number of files whose names claim later
// batches than they hold.
constexpr std::size_t kMaxReplaceable = 16;  // Each may cost a full read.
constexpr std::size_t kMaxUnusable = 64;     // These take less.

// Lists the folders of the place's format, with paths relative to its folder as names. Examines no
// file: its name decides first whether it matters.
std::vector<ListedName> list_files(const SaverPlace& place, const FormatVariables& dist) {
  std::vector<ListedName> found;
  for (const std::string& where :
       format_folders(*place.store, place.folder, place.filename, dist)) {
    const std::string there = where.empty() ? place.folder : join_path(place.folder, where);
    for (ListedName& listed : list_all_if_any(*place.store, there)) {
      if (!where.empty()) listed.name = join_path(where, listed.name);
      found.push_back(std::move(listed));
    }
  }
  return found;
}

// A checkpoint without a run name may be this run's.
bool is_own_run(const SaverPlace& place, const CheckpointInfo& info) {
  return info.run_name.empty() || info.run_name == place.run_name;
}

bool is_at(const CheckpointInfo& info, const Timestamp& timestamp) {
  return info.timestamp && position(*info.timestamp) == position(timestamp);
}

// Whether the checkpoint says that this run made it at `timestamp`.
bool is_made_at(const SaverPlace& place, const CheckpointInfo& info, const Timestamp& timestamp) {
  return info.run_name == place.run_name && is_at(info, timestamp);
}

// How a user goes on although such a file is there. `may_rewrite_own`: autoresume has looked at the
// file and does not resume from it.
std::string advice(bool is_own, bool may_rewrite_own) {
  if (may_rewrite_own) {
    return "Autoresume does not go on from it. Move it away, choose another save_folder or "
           "save_filename, or set save_overwrite";
  }
  return "To go on from the newest checkpoint there, " +
         std::string(is_own ? "set autoresume, or " : "") +
         "give it as load_path. To begin anew, choose another save_folder, remove the file, or set "
         "save_overwrite";
}

[[noreturn]] void refuse(const SaverPlace& place, const std::string& path, const Conflict& conflict,
                         const CheckpointInfo& info, bool may_rewrite_own) {
  const bool is_own = is_own_run(place, info);
  const std::string whose =
      is_own ? "" : " It is of the run \"" + printable_line(info.run_name) + "\".";
  throw AlreadyExistsError(place.store->describe(path) + " could be overwritten by this run (" +
                           conflict.why + ")." + whose + " " + advice(is_own, may_rewrite_own));
}

// A file and a folder cannot have the same name, and a far store cannot put the existing one aside.
[[noreturn]] void refuse_kind(const SaverPlace& place, const std::string& path) {
  throw AlreadyExistsError(place.store->describe(path) +
                           (place.saves_folders
                                ? " is no folder, and this run could write one there"
                                : " is a folder, and this run could write a file there") +
                           ": move it away, or choose another save_folder or save_filename");
}

// A file that its disk fails to deliver may be any run's. Only an autoresumed run has given it up.
// Even then, it must be possible to put it aside when its name is needed.
void check_can_be_given_up(const SaverPlace& place, const std::string& path,
                           const FileFindings& found, bool may_rewrite_own) {
  if (!found.unreadable) return;
  if (may_rewrite_own) {
    place.store->stat(path, /*follow=*/false);
    return;
  }
  try {
    std::rethrow_exception(found.unreadable);
  } catch (Error& e) {
    e.add_context(
        "this run would save there, and it is unknown which run the file belongs to: put it aside, "
        "choose another save_folder, or set save_overwrite");
    throw;
  }
}

// `info`: about the path, if a listing gave it.
std::string version_far_away(const SaverPlace& place, const std::string& path,
                             const std::optional<ObjectInfo>& info) {
  if (!place.store->may_be_far()) return "";
  const auto there = info ? info : place.store->stat(path);
  return there ? there->version : "";
}

// Whether the saver may overwrite a checkpoint with this `info`.
bool may_replace(const SaverPlace& place, const Conflict& conflict, const CheckpointInfo& info,
                 bool may_rewrite_own) {
  if (!is_own_run(place, info)) return false;
  return (may_rewrite_own && !info.run_name.empty()) ||
         (conflict.is_present && is_at(info, place.now));
}

// The last components of `path`, as many as `format` has.
std::string tail_of(const std::string& path, const NameFormat& format) {
  auto parts = 1 + std::ranges::count(format.text(), '/');
  std::size_t begin = path.size();
  while (parts-- > 0 && begin != std::string::npos && begin > 0) {
    begin = path.rfind('/', begin - 1);
  }
  return begin == std::string::npos ? path : path.substr(begin + (path[begin] == '/' ? 1 : 0));
}

// Sorts files that training could overwrite, as check_conflicts() says.
class ConflictCheck {
 public:
  ConflictCheck(const SaverPlace& place, const SavedCheckpoints& saved, bool may_rewrite_own)
      : place_(place), saved_(saved), may_rewrite_own_(may_rewrite_own) {}

  // `info`: about the path, if a listing gave it.
  void look_at(const Conflict& conflict, std::optional<ObjectInfo> info) {
    const std::string path = join_path(place_.folder, conflict.name);
    using Type = ObjectInfo::Type;
    if (info && info->type != Type::kObject && info->type != Type::kFolder) info.reset();
    const bool is_folder =
        info ? info->type == Type::kFolder : is_known_folder(*place_.store, path);
    if (place_.store->may_be_far() && is_folder != place_.saves_folders) refuse_kind(place_, path);
    if (is_folder && is_saved_in_parts(place_, path)) return look_at_part(conflict, path);
    // The save puts aside a thing that is in its way. In a far store it reports what a killed save
    // left.
    if (is_folder && !is_checkpoint_folder(*place_.store, path)) return;
    if (conflict.is_present && saved_.is_saved_here(path, place_.now)) return;
    // Reads every byte of files that could be worth keeping. No run resumes from weights alone, so
    // these are read quickly. In a far store, bytes that their writer verified are not fetched
    // again.
    const bool is_quick = place_.weights_only || place_.store->may_be_far();
    const FileFindings found =
        inspect_file(place_.store, path, is_quick ? Verify::kQuick : Verify::kFull);
    if (!found.info) {
      check_can_be_given_up(place_, path, found, may_rewrite_own_);
      result_.unusable.push_back({path, found.problem, version_far_away(place_, path, info)});
    } else if (!may_replace(place_, conflict, *found.info, may_rewrite_own_)) {
      refuse(place_, path, conflict, *found.info, may_rewrite_own_);
    } else {
      result_.replaceable.push_back({path, "", version_far_away(place_, path, info)});
    }
  }

  // Whether enough names were examined. The others are examined before their saves.
  bool is_enough() const {
    return result_.replaceable.size() >= kMaxReplaceable || result_.unusable.size() >= kMaxUnusable;
  }
  void leave(const Conflict& conflict) {
    result_.unexamined.push_back(join_path(place_.folder, conflict.name));
  }

  FolderConflicts take() { return std::move(result_); }

 private:
  void look_at_part(const Conflict& conflict, const std::string& path) {
    // This is the checkpoint from which training resumes, or would have resumed if the other
    // machines were in the job. Autoresume knows: it may have resumed from the same batch in
    // another place, where the checkpoint is whole.
    const bool is_resumed_from = !may_rewrite_own_ || place_.may_have_resumed_from(path) ||
                                 saved_.is_saved_here(path, place_.now);
    if (conflict.is_present && is_resumed_from) return;
    if (!may_rewrite_own_) refuse(place_, path, conflict, {}, may_rewrite_own_);
    result_.unusable.push_back(
        {path, "its other parts are on machines that are not in this job or cannot read them", ""});
  }

  const SaverPlace& place_;
  const SavedCheckpoints& saved_;
  const bool may_rewrite_own_;
  FolderConflicts result_;
};

}  // namespace

std::string SaverPlace::name() const {
  return strict_format(filename, dist() + time_variables(now));
}

std::string SaverPlace::path() const { return join_path(folder, name()); }

bool SaverPlace::is_retired(const std::string& path) const {
  const std::string name = relative_path(normal_path(path), normal_path(folder));
  return cairn::is_retired(filename, name, dist(), now);
}

bool SaverPlace::may_have_resumed_from(const std::string& path) const {
  return !resumed_from || normal_path(*resumed_from) == normal_path(path);
}

bool is_saved_in_parts(const SaverPlace& place, const std::string& path) {
  if (!place.saves_folders || !place.store->names_are_paths()) return false;
  try {
    return is_machine_part(*place.store, path);
  } catch (const UnreadableError&) {
    return false;  // Examining the folder itself gives the same error.
  }
}

bool holds_checkpoint_of_now(const SaverPlace& place, const std::string& path) {
  const auto info = inspect_file(place.store, path, Verify::kQuick).info;
  return info && info->run_name == place.run_name && is_at(*info, place.now) &&
         info->kind == (place.weights_only ? "weights" : "full");
}

std::string find_obstacle(ObjectStore& store, const std::string& path, bool makes_folder) {
  using Type = ObjectInfo::Type;
  const auto there = store.stat(path, /*follow=*/false);
  if (!there) return "";
  if (!makes_folder) {
    return there->type == Type::kFolder ? "it is a folder, and this run writes a file there" : "";
  }
  if (there->type != Type::kFolder) return "it is no folder, and this run writes one there";
  const std::vector<std::string> names = list_names(store, path);
  for (const std::string& name : names) {
    const auto inside = store.stat(join_path(path, name), /*follow=*/false);
    if (inside && inside->type == Type::kFolder) return "it holds the folder " + name;
  }
  if (names.empty() || is_checkpoint_folder(store, path)) return "";
  const bool has_name = std::ranges::find(names, ".metadata") != names.end();
  return std::string("it holds files, and is no checkpoint (") +
         (has_name ? "its .metadata is a pipe, a device or a link that leads nowhere"
                   : "it has no .metadata") +
         ")";
}

std::optional<PutAside> examine_again(const std::shared_ptr<ObjectStore>& store,
                                      const std::string& path, const std::string& own_run,
                                      bool may_rewrite_own) {
  const FileFindings found = inspect_file(store, path, Verify::kFull);
  if (!found.info) {
    return PutAside{found.unreadable ? kAsideUnreadable : kAsideDamaged, found.problem};
  }
  if (may_rewrite_own && !own_run.empty() && found.info->run_name == own_run) return std::nullopt;
  throw AlreadyExistsError(path +
                           " could not be read as a checkpoint when training started, and is now a "
                           "checkpoint of the run \"" +
                           printable_line(found.info->run_name) +
                           "\". Remove it, choose another save_folder, or set save_overwrite");
}

FolderConflicts check_conflicts(const SaverPlace& place, const SavedCheckpoints& saved,
                                bool may_rewrite_own) {
  const FormatVariables dist = place.dist();
  const std::vector<ListedName> files = list_files(place, dist);
  std::vector<std::string> names;
  for (const ListedName& file : files) {
    names.push_back(file.name);
  }
  ConflictCheck check(place, saved, may_rewrite_own);
  auto file = files.begin();
  for (const Conflict& conflict : find_conflicts(place.filename, names, dist, place.now)) {
    file = std::ranges::find(file, files.end(), conflict.name, &ListedName::name);
    if (check.is_enough()) {
      check.leave(conflict);
    } else {
      check.look_at(conflict, file->info);
    }
  }
  return check.take();
}

FolderConflicts check_next_save(const SaverPlace& place, const SavedCheckpoints& saved,
                                bool may_rewrite_own, bool may_be_loaded_file) {
  const auto info = place.store->stat(place.path());
  if (!info) return {};
  ConflictCheck check(place, saved, may_rewrite_own);
  check.look_at({.name = place.name(),
                 .why = "a save at this moment has that name",
                 .is_present = may_be_loaded_file},
                place.store->may_be_far() ? info : std::nullopt);
  return check.take();
}

void adopt_saved(const SaverPlace& place, SavedCheckpoints& saved) {
  const std::string here = normal_path(place.folder);
  const FormatVariables dist = place.dist();
  ExistenceCache exists(place.store);
  const auto is_own_name = [&](const std::string& name) {
    return parse_name(place.filename, name, dist).has_value();
  };
  std::set<std::string> moved;  // Other paths of this folder.
  // How many files of a folder did not prove that it is this one.
  std::map<std::string, std::size_t> asked;
  const auto find = [&](const std::string& path,
                        const Timestamp& timestamp) -> std::optional<std::string> {
    const std::string there = normal_path(path);
    if (is_own_name(relative_path(there, here))) return path;
    const std::string name = tail_of(there, place.filename);
    const std::string now = join_path(place.folder, name);
    const std::string folder = there.substr(0, there.size() - name.size());
    if (!is_own_name(name) || asked[folder] >= kMaxReplaceable || !exists(now)) return std::nullopt;
    if (!moved.contains(folder)) {
      // Parts do not say when they were made, so the name is trusted.
      const bool is_in_parts = is_saved_in_parts(place, now);
      const auto info =
          is_in_parts ? std::nullopt : inspect_file(place.store, now, Verify::kQuick).info;
      if (!is_in_parts && (!info || !is_made_at(place, *info, timestamp))) {
        ++asked[folder];
        return std::nullopt;
      }
      moved.insert(folder);
    }
    return now;
  };
  saved.adopt(find, std::ref(exists));
}

bool is_still_own(const SaverPlace& place, const std::string& path, const Timestamp& timestamp) {
  try {
    if (is_saved_in_parts(place, path) || !place.store->stat(path)) return true;
    const auto info = inspect_file(place.store, path, Verify::kQuick).info;
    if (!info) return false;
    const bool says_nothing = info->run_name.empty() && !info->timestamp;
    return is_made_at(place, *info, timestamp) || (place.weights_only && says_nothing);
  } catch (const CancelledError&) {
    throw;
  } catch (const StorageError& e) {
    if (e.retryable()) throw;
    return false;  // It is unknown what it is.
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace cairn
