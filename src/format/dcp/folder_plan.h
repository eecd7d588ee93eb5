// Writing a torch.distributed.checkpoint folder of one rank.
//
//  1. `__0_0.distcp`: every item is a torch.save file, one after the other: first all objects, then
//     all tensors, as PyTorch orders them.
//  2. `.metadata`, which says where they are; it makes the folder a checkpoint and is written last.
//
// The class streams; whoever has the folder publishes it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cairn/bytes.h"
#include "cairn/value.h"

#include "format/dcp/flatten.h"

namespace cairn::dcp {

constexpr const char* kDataFile = "__0_0.distcp";
constexpr const char* kMetadataFile = ".metadata";

class FolderPlan {
 public:
  // Borrows `root`. UnsupportedError for what such a folder cannot hold. `scratch_folder` is for
  // ScratchFile: a tensor that is not contiguous is put in order before it is written.
  explicit FolderPlan(const Value& root, const std::string& scratch_folder = {});

  std::uint64_t data_size_bound() const;
  // kDataFile. Once.
  void write_data(ByteSink& sink);
  std::uint64_t data_size() const { return data_size_; }  // when it has been written
  // kMetadataFile, when the data has been written.
  std::string metadata() const;

 private:
  struct Stored {
    FlatItem item;
    Value value;  // the item's, or its tensor as it is stored
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
  };

  std::vector<Stored> items_;  // in the tree's order
  std::uint64_t data_size_ = 0;
};

}  // namespace cairn::dcp
