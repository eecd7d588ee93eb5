// A store for reading the checkpoints of ranks on several machines, as if all files were in one
// folder. Each machine has only some of the files.
//
//  1. The ranks have agreed on the checkpoints, and on which rank has which file
//     (agree_over_ranks.h).
//  2. A file that this rank has, with the agreed content, is read from this rank's own store. Any
//     other file is read from the first rank that has it, and only the ranges that are wanted.
//
// The store has only these checkpoints: no pointers and no other names.
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

// A file of the agreed checkpoints: which checkpoint, which of its files, and a rank that has it.
struct FileOfRank {
  std::size_t checkpoint = 0;
  std::size_t file = 0;
  std::int64_t rank = 0;
};

// Reads files of other ranks. Thread-safe.
class PeerFileReader {
 public:
  virtual ~PeerFileReader() = default;
  // Fills every range, which must be in the file. Throws the StorageError of the rank that has the
  // file, and an error if that rank is gone.
  virtual void read(const FileOfRank& file, std::span<const ByteSource::Range> ranges) const = 0;
};

class JointStore final : public ForwardingStore {
 public:
  struct View {
    std::string folder = {};                    // this rank's folder, in which the names are
    std::vector<AgreedCheckpoint> agreed = {};  // without the checkpoints that lack something
    std::vector<SeenCheckpoint> seen = {};      // by this rank
    std::shared_ptr<const PeerFileReader> others = nullptr;
  };
  // `here`: the store with this rank's files.
  JointStore(std::shared_ptr<ObjectStore> here, View view);

  // Opens an agreed file, for another rank that asks for the file. Throws NotFoundError and
  // StorageError.
  std::shared_ptr<const ByteSource> open_here(std::size_t checkpoint, std::size_t file) const;
  // Whether this rank has all files of the checkpoint at `path`.
  bool is_all_here(const std::string& path) const;
  const std::shared_ptr<ObjectStore>& here() const { return under_; }

  StoreFeatures features() const override { return {}; }
  bool may_be_far() const override { return true; }
  bool names_are_paths() const override { return false; }  // files of other machines are not here
  std::optional<ObjectInfo> stat(const std::string& name, bool follow) override;
  // Throws UsageError for a folder, and NotFoundError.
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
  std::map<std::string, std::set<std::string>> folders_;  // by path: the names directly in it
};

}  // namespace cairn
