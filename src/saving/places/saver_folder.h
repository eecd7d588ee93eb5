// Examines files in a saver's folder when a fit() starts or a save comes: which run they belong to,
// and whether they may be replaced.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/checkpoint/names.h"
#include "cairn/storage/object_store.h"
#include "cairn/time.h"

#include "saving/places/saved_checkpoints.h"

namespace cairn {

// Where a run saves, and its position in training.
struct SaverPlace {
  std::shared_ptr<ObjectStore> store;
  std::string folder;
  NameFormat filename;
  bool weights_only = false;
  std::string run_name;
  Timestamp now;               // The position of the run, at a start or a save.
  bool saves_folders = false;  // Folders that all ranks write together.
  // The checkpoint that was loaded, if machines have parts of it. Empty: a whole one was loaded.
  // nullopt: unknown.
  std::optional<std::string> resumed_from = std::nullopt;

  FormatVariables dist() const { return dist_variables(run_name); }
  // The path under which `now` is saved, and its name in the folder.
  std::string path() const;
  std::string name() const;
  // Whether `path` belongs to a save before `now`, and to no save at `now` or later.
  bool is_retired(const std::string& path) const;
  // Whether the parts at `path` can be the checkpoint that was loaded.
  bool may_have_resumed_from(const std::string& path) const;
};

// Whether `path` is a whole checkpoint that this run's saver made at `now`.
bool holds_checkpoint_of_now(const SaverPlace& place, const std::string& path);

// Whether it is a folder of all ranks of which this machine has some files, and other machines the
// rest. False if the disk fails to deliver the manifest: then it is unknown.
bool is_saved_in_parts(const SaverPlace& place, const std::string& path);

struct FolderConflicts {
  struct File {
    std::string path;
    std::string problem;  // It is damaged, no checkpoint, or its disk fails to deliver it.
    std::string version;  // In a store that may_be_far().
  };
  std::vector<File> unusable;     // To be overwritten; no run can resume from them.
  std::vector<File> replaceable;  // Others that the saver may overwrite; without a problem.
  // More paths that the saver could overwrite. check_next_save() examines each before its save.
  std::vector<std::string> unexamined;
};

// Refuses files that training would overwrite. Throws AlreadyExistsError, which names the file, its
// run and what to do. It does not refuse:
//  - Files that no run can resume from, which it reports. An autoresumed run passed over them, and
//    could otherwise never continue. If the disk fails to deliver a file, it is unknown whose file
//    it is: then throws UnreadableError, except for an autoresumed run. It throws for that run,
//    too, if not even the name can be examined.
//  - The file from which training resumes, and one that `saved` wrote in this process, under a name
//    that does not change with the batch.
//  - With `may_rewrite_own`, every file of the run itself, which resumes from before them.
// In a far store it always refuses a folder where a file is to be, and the reverse.
// Examines a bounded number of files, however many there are. In a far store that is a request or
// two for each of these, and the pages of the listing.
FolderConflicts check_conflicts(const SaverPlace& place, const SavedCheckpoints& saved,
                                bool may_rewrite_own);

// The same for the one path of a save at this moment. For a caller that has not called
// check_conflicts(), or whose path is in unexamined. `may_be_loaded_file`: training has not
// continued yet, so a file of this moment may be the one that was loaded.
FolderConflicts check_next_save(const SaverPlace& place, const SavedCheckpoints& saved,
                                bool may_rewrite_own, bool may_be_loaded_file);

// Says why a thing at `path` on this machine prevents a save or a link with that name: it is of
// another kind, and may not be replaced. Empty if nothing prevents it.
std::string find_obstacle(ObjectStore& store, const std::string& path, bool makes_folder);

// How an unusable file is put aside when its name is needed.
struct PutAside {
  std::string ending;  // As in put_aside().
  std::string problem;
};

// nullopt: the file can be read again, or was put there meanwhile. It is whole and of the run
// itself, which may overwrite it. Throws AlreadyExistsError if it is another run's or may not be
// overwritten. Throws StorageError if it cannot be read now: then it must not be touched.
std::optional<PutAside> examine_again(const std::shared_ptr<ObjectStore>& store,
                                      const std::string& path, const std::string& own_run,
                                      bool may_rewrite_own);

// Entries of `saved` that came from a loaded checkpoint become this saver's own where they are.
// These are the entries in the folder whose names the saver makes.
//
// The folder may have another path than then: it was moved or copied, or is named from another
// working directory. Then entries whose files are now in it under their names are also adopted. One
// of these files must say that this run made it at the entry's position; this proves that it is
// that folder. A fork into its own folder takes over nothing. Another run may save under one of the
// names later, so is_still_own() is called before a removal.
void adopt_saved(const SaverPlace& place, SavedCheckpoints& saved);

// Whether the file of an adopted entry may be removed: it says that this run made it at
// `timestamp`, or there is no file. False if it cannot be read. Throws StorageError or
// CancelledError if another attempt may read it. A sharded folder with parts on other machines does
// not say which run wrote it, nor does a sharded folder of weights. For these two, the name is
// trusted.
bool is_still_own(const SaverPlace& place, const std::string& path, const Timestamp& timestamp);

}  // namespace cairn
