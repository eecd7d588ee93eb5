// Checkpoints on machines without a common file system. Each machine has the files that its own
// ranks wrote, and all ranks resume from what the machines have together.
//
//  1. Every rank reports what it sees in its folder, and all ranks agree on the checkpoints that
//     exist (checkpoint/ranks/agree_over_ranks.h). One rank per machine reports for all of its
//     ranks.
//  2. From then on, files of other machines can be read as if they were local
//     (checkpoint/ranks/joint_store.h), through the ranks (dist/peer_files.h). The number and the
//     machines of the ranks may have changed.
//  3. Searching and loading use these joint checkpoints.
//
// If all ranks see one file system, they have the same files, and nothing is sent.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cairn/export.h"
#include "cairn/storage/object_store.h"

#include "checkpoint/ranks/joint_store.h"
#include "resuming/search_places.h"

namespace CAIRN_PUBLIC cairn {
class Logger;
}  // namespace cairn

namespace cairn {

namespace dist {
class PeerFiles;
}

// Keep this object until all ranks have loaded.
class JointCheckpoints {
 public:
  // Collective. Whether there is anything to join: there are several machines, each with its own
  // folder. Throws DistError.
  static bool is_needed(const ObjectStore& store);

  // Collective. Finds the checkpoints in a saver's folder. Throws RankFailure and DistError. Throws
  // the verdict of why_none_is_whole() unless the checkpoints are also kept elsewhere, where the
  // caller looks.
  static std::unique_ptr<JointCheckpoints> in_folder(const SearchPlace& place,
                                                     bool is_kept_elsewhere, Logger& logger);
  // Collective. Finds the one checkpoint at `path`. The folder is that of `path` on this rank, and
  // the name in it is that of `path` on rank 0.
  static std::unique_ptr<JointCheckpoints> of_path(const std::string& path,
                                                   const std::shared_ptr<ObjectStore>& store);
  ~JointCheckpoints();

  const std::shared_ptr<JointStore>& store() const { return store_; }
  // The same on all ranks: why no rank may begin anew if there is no checkpoint elsewhere either.
  // See checkpoint/ranks.
  const Verdict& why_none_is_whole() const { return why_none_is_whole_; }
  // The checkpoint of of_path(): its path in the store.
  const std::string& path() const { return path_; }

 private:
  using Look = std::function<std::vector<SeenCheckpoint>()>;
  struct Options {
    bool may_lack_all = false;  // As in AgreeJob.
    bool marks_parts = false;   // Marks the parts of whole checkpoints; see name_on_machine.h.
  };
  JointCheckpoints(const std::shared_ptr<ObjectStore>& here, const std::string& folder,
                   const Look& look, const Options& options);

  std::vector<AgreedCheckpoint> agreed_;
  std::shared_ptr<JointStore> store_;
  Verdict why_none_is_whole_;
  std::string path_;
  std::shared_ptr<dist::PeerFiles> peers_;
};

}  // namespace cairn
