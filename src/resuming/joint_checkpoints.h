// Checkpoints on machines without a file system in common: each has the files that its own ranks
// wrote, and all ranks go on from what they have together.
//
//  1. Every rank says what it sees in its folder, and all agree on what there is
//     (checkpoint/ranks/agree_over_ranks.h). Of a machine one rank says it for all.
//  2. From then on the files of the others can be read as if they lay here
//     (checkpoint/ranks/joint_store.h), over the ranks (dist/peer_files.h): whatever the number of
//     ranks is now, and wherever they are.
//  3. What is looked for, and loaded, is looked for and loaded there.
//
// Where all see one file system they have the same files, and nothing is sent.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cairn/storage/object_store.h"

#include "checkpoint/ranks/joint_store.h"
#include "resuming/search_places.h"

namespace cairn {

class Logger;

namespace dist {
class PeerFiles;
}

// To be kept until all ranks have loaded.
class JointCheckpoints {
 public:
  // Whether there is anything to join: several machines, and a folder of each. On all ranks
  // together. DistError.
  static bool is_needed(const ObjectStore& store);

  // Those in a saver's folder. On all ranks together. RankFailure, DistError; the verdict of
  // why_none_is_whole(), unless they are also kept elsewhere, where the caller looks.
  static std::unique_ptr<JointCheckpoints> in_folder(const SearchPlace& place,
                                                     bool is_kept_elsewhere, Logger& logger);
  // That one, in the folder that `path` is in on this rank, by the name that it has for rank 0.
  static std::unique_ptr<JointCheckpoints> of_path(const std::string& path,
                                                   const std::shared_ptr<ObjectStore>& store);
  ~JointCheckpoints();

  const std::shared_ptr<JointStore>& store() const { return store_; }
  // Why nobody may begin anew when elsewhere there is nothing, either: why_none_is_whole(). On all
  // ranks the same.
  const Verdict& why_none_is_whole() const { return why_none_is_whole_; }
  // Of of_path(): where it is in the store.
  const std::string& path() const { return path_; }

 private:
  using Look = std::function<std::vector<SeenCheckpoint>()>;
  struct Options {
    bool may_lack_all = false;  // AgreeJob's
    bool marks_parts = false;   // name_on_machine.h: of those that are found whole
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
