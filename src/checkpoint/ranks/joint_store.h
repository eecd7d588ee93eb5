// The checkpoints that ranks on several machines have together, each machine its own files: for
// reading, as if all of them lay in one folder.
//
//  1. The ranks have agreed on what there is, and who has which file (agree_over_ranks.h).
//  2. A file of the agreed content that this rank has is read here; any other one from the first
//     rank that has it, the ranges that somebody wants and no more.
//
// It knows nothing else than these checkpoints: no pointers, no other names.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/ranks/agree_over_ranks.h"
#include "storage/forwarding_store.h"

namespace cairn {

// A file of what was agreed on: which checkpoint, which file of it, and who has it.
struct FileOfRank {
  std::size_t checkpoint = 0;
  std::size_t file = 0;
  std::int64_t rank = 0;
};

// How files of other ranks are read. Safe from several threads.
class OthersFiles {
 public:
  virtual ~OthersFiles() = default;
  // Fills every range, which lies in the file. StorageError of who has it; whatever tells that the
  // rank is gone.
  virtual void read(const FileOfRank& file, std::span<const ByteSource::Range> ranges) const = 0;
};

class JointStore final : public ForwardingStore {
 public:
  struct View {
    std::string folder = {};                    // of this rank, in which names are
    std::vector<AgreedCheckpoint> agreed = {};  // that lack nothing
    std::vector<SeenCheckpoint> seen = {};      // by this rank
    std::shared_ptr<const OthersFiles> others = nullptr;
  };
  // `here`: what this rank has a part in.
  JointStore(std::shared_ptr<ObjectStore> here, View view);

  // For who asks this rank: a file of what was agreed on. NotFoundError, StorageError.
  std::shared_ptr<const ByteSource> open_here(std::size_t checkpoint, std::size_t file) const;
  // Whether this rank has all files of the checkpoint at `path`.
  bool is_all_here(const std::string& path) const;
  const std::shared_ptr<ObjectStore>& here() const { return under_; }

  StoreFeatures features() const override { return {}; }
  bool may_be_far() const override { return true; }
  bool names_are_paths() const override { return false; }  // files of other machines are not here
  std::optional<ObjectInfo> stat(const std::string& name, bool follow) override;
  // UsageError for a folder; NotFoundError.
  std::shared_ptr<const ByteSource> open(const std::string& name) override;
  ListPage list(const std::string& folder, const std::string& page) override;
  std::optional<Pointer> read_pointer(const std::string& /*name*/) override { return std::nullopt; }

 private:
  struct Entry {
    FileOfRank where;
    std::uint64_t bytes = 0;
    bool is_here = false;
  };
  std::string path_of(std::size_t checkpoint, std::size_t file) const;
  void add(std::size_t checkpoint, const std::set<std::string>& own);

  const View view_;
  std::map<std::string, Entry> files_;                    // by path
  std::map<std::string, std::set<std::string>> folders_;  // what is directly in them
};

}  // namespace cairn
