// Writing a torch.distributed.checkpoint folder of one rank.
//
//  1. `__0_0.distcp`: every item is a torch.save file, one after the other: first all objects, then
//     all tensors, as PyTorch orders them.
//  2. `.metadata`, which says where they are; it makes the folder a checkpoint and is written last.
//
// Whoever has the folder writes and publishes both.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cairn/value.h"

#include "format/dcp/flatten.h"
#include "format/torch_plan.h"

namespace cairn::dcp {

constexpr const char* kDataFile = "__0_0.distcp";
constexpr const char* kMetadataFile = ".metadata";

// kDataFile: torch.save files, one behind the other.
class DataPlan final : public CheckpointPlan {
 public:
  Check check() const override { return Check::kCrc32; }
  std::uint64_t size() const override { return size_; }
  void append_between(std::size_t index, std::span<const std::uint64_t> checks,
                      std::string& out) const override;
  std::string name_of(std::size_t index) const override { return files_[file_of(index)].name; }

  // The next file, which messages call `name`.
  void add(TorchPlan file, std::string name);

 private:
  struct File {
    TorchPlan plan;
    std::string name;
    std::size_t first_part;
  };
  // Which file a part is in.
  std::size_t file_of(std::size_t part) const;

  std::vector<File> files_;
  std::uint64_t size_ = 0;
};

class FolderPlan {
 public:
  // Borrows `root`. UnsupportedError for what such a folder cannot hold. `scratch_folder` is for
  // ScratchFile: a tensor that is not contiguous is put in order before it is written.
  explicit FolderPlan(const Value& root, const std::string& scratch_folder = {});

  const DataPlan& data() const { return data_; }
  // kMetadataFile.
  std::string metadata() const;

 private:
  struct Stored {
    FlatItem item;
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
  };

  std::vector<Stored> items_;  // in the tree's order
  DataPlan data_;
};

}  // namespace cairn::dcp
