// The folder in which a machine's ranks put the files of an attempt together: steps 1, 2 and 8 of
// commit_over_ranks.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cairn/storage/object_store.h"

#include "checkpoint/plan/folder_manifest.h"
#include "checkpoint/ranks/name_on_machine.h"
#include "checkpoint/ranks/roll_call.h"
#include "storage/publish/attempt_folder.h"

namespace cairn {

class MachineFolder {
 public:
  // `options` have the id only on rank 0. The store and the call must outlive this object.
  MachineFolder(ObjectStore& store, RollCall& call, AttemptFolderOptions options)
      : store_(store), call_(call), options_(std::move(options)) {}

  // For rank 0. Throws what create_attempt_folder() throws.
  void create() { folder_ = create_attempt_folder(store_, options_); }
  // For the first rank of a machine. Joins rank 0's folder, or makes a folder for all ranks of this
  // machine if it cannot see that folder. Tells the machine's ranks whose folder they use.
  // `may_put_aside`: whether an unknown file or folder that has the name here may be renamed.
  void join_or_create(const std::string& id, bool may_put_aside);
  // For the other ranks. Throws UsageError if this rank does not see the folder.
  void join(const std::string& id);

  AttemptFolder& folder() { return *folder_; }
  const std::string& id() const { return options_.id; }
  // The rank that made the folder.
  std::int64_t home() const { return home_; }
  bool is_own() const { return home_ == call_.me().rank; }
  // On a rank that made a folder: the state of the name on this machine before the folder was made.
  const NameOnMachine& name() const { return name_; }

  // For a rank that made a folder. Throws StorageError if another process, of an attempt that was
  // given up, still writes. A checkpoint of more than one folder needs this check, because a rename
  // would not show such a process.
  void refuse_rivals() const;
  // Throws StorageError unless the file of `rank` has as many bytes as the rank wrote.
  void check_size(std::int64_t rank, const ManifestFile& file) const;
  // Whether another rank made the folder and has removed it.
  bool was_removed_by_other() const;
  // Ends the use of the folder. Removes what this rank wrote, unless `keeps` is true.
  void release(bool keeps);

 private:
  ObjectStore& store_;
  RollCall& call_;
  AttemptFolderOptions options_;
  std::unique_ptr<AttemptFolder> folder_;
  std::int64_t home_ = 0;
  NameOnMachine name_;
};

}  // namespace cairn
