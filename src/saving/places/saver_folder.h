// What lies in a saver's folder when a fit() starts or a save comes: whose it is, and whether it
// may be replaced.
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

// Where a run saves, and where it is.
struct SaverPlace {
  std::shared_ptr<ObjectStore> store;
  std::string folder;
  NameFormat filename;
  bool weights_only = false;
  std::string run_name;
  Timestamp now;               // the position of the run: at a start, or at a save
  bool saves_folders = false;  // that all ranks write together
  // The checkpoint that was loaded, when machines have parts of it; empty: another one was, which
  // was whole. nullopt: nobody says.
  std::optional<std::string> gone_on_from = std::nullopt;

  FormatVariables dist() const { return dist_variables(run_name); }
  // The path under which `now` is saved, and its name in the folder.
  std::string path() const;
  std::string name() const;
  // Whether it is a path of a save before now, which no save of now or later has.
  bool has_passed(const std::string& path) const;
  // Whether what has parts at `path` can be what was loaded.
  bool may_have_gone_on_from(const std::string& path) const;
};

// Whether `path` is a checkpoint that this saver of this run made at `now`, whole.
bool holds_checkpoint_of_now(const SaverPlace& place, const std::string& path);

// Whether it is a folder of all ranks of which this machine has some files, and others the rest.
// Not known of one whose manifest the disk does not give: false.
bool is_saved_in_parts(const SaverPlace& place, const std::string& path);

struct FolderConflicts {
  struct File {
    std::string path;
    std::string problem;  // damaged, or no checkpoint, or its disk does not give all of it
    std::string version;  // in a store that may_be_far()
  };
  std::vector<File> unusable;     // they will be written again, and nobody can go on from them
  std::vector<File> replaceable;  // the others that the saver may write over; without a problem
  // More paths that the saver could write over. check_next_save() looks at each in its turn.
  std::vector<std::string> not_looked_at;
};

// Refuses files that training would write over: AlreadyExistsError that names the file, whose it is
// and what to do. None of them are
//  - what nobody can go on from: an autoresumed run passed over it and could otherwise never get
//    by. It is reported. Where it is the disk that does not give it nobody knows whose it is:
//    UnreadableError, but for that run; for it, too, when not even the name can be looked at.
//  - the file that training goes on from, and one that `saved` wrote in this process, under a name
//    that does not change with the batch;
//  - with `may_rewrite_own`, every file of the run itself: it goes on from before them.
// Looks into a bounded number of files, however many there are. Far away that is a request or two
// for each of these, and the pages of the listing.
FolderConflicts check_conflicts(const SaverPlace& place, const SavedCheckpoints& saved,
                                bool may_rewrite_own);

// The same for the one path that a save at this moment has. For a caller that has not asked
// check_conflicts(), or was told that the path is not_looked_at. `goes_on_from_it`: training has
// not gone on yet, so that a file of this very moment may be the one that was loaded.
FolderConflicts check_next_save(const SaverPlace& place, const SavedCheckpoints& saved,
                                bool may_rewrite_own, bool goes_on_from_it);

// Says why neither a save nor a link can have the name `path` on this machine: a thing of another
// kind has it, which may not be replaced. Empty: it can.
std::string what_is_in_the_way(ObjectStore& store, const std::string& path, bool makes_folder);

// What becomes of the name of an unusable file for which its turn has come.
struct PutAside {
  std::string ending;  // put_aside()'s
  std::string problem;
};

// nullopt: the disk gives it again, or somebody has put it there, and it is whole and of the run
// itself, which may write over it. AlreadyExistsError when it is another's, or may not.
// StorageError when it cannot be read now: it is not to be touched.
std::optional<PutAside> look_again(const std::shared_ptr<ObjectStore>& store,
                                   const std::string& path, const std::string& own_run,
                                   bool may_rewrite_own);

// Makes entries of `saved` that came from a loaded checkpoint this saver's own where they are:
// those in the folder whose names it makes; and, when the folder has another path than then (it was
// moved, copied, or is named from another working directory), those that lie in it now under their
// names. That it is that folder is certain when one of them says that it was made by this run at
// the position that the entry tells; a fork into a folder of its own takes over nothing. By then
// another run may have saved under one of the names: is_still_own() is asked before it is removed.
void adopt_saved(const SaverPlace& place, SavedCheckpoints& saved);

// Whether what an adopted entry names may be removed: it says that this run made it at the entry's
// `timestamp`, or nothing is there. False when it cannot be read; StorageError, CancelledError if
// another attempt may read it. Of a folder of which other
// machines have parts nobody can tell here, and of weights alone that all ranks wrote together
// nobody anywhere: the name is believed.
bool is_still_own(const SaverPlace& place, const std::string& path, const Timestamp& timestamp);

}  // namespace cairn
