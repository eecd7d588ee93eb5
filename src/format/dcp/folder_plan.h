// Writes a torch.distributed.checkpoint folder of one rank.
//
//  1. `__0_0.distcp`: every item is a torch.save file, one after the other: first all objects, then
//     all tensors, as PyTorch orders them.
//  2. `.metadata`, which says where the items are. This file makes the folder a checkpoint, and is
//     written last.
//
// The caller writes and publishes both.
#pragma once

#include <string>
#include <vector>

#include "cairn/value.h"

#include "format/dcp/data_plan.h"
#include "format/dcp/flatten.h"
#include "format/dcp/metadata/write_metadata.h"

namespace cairn::dcp {

constexpr const char* kDataFile = "__0_0.distcp";

class FolderPlan {
 public:
  // Borrows `root`. Throws UnsupportedError for values that such a folder cannot hold.
  // `scratch_folder` is for ScratchFile: a tensor that is not contiguous is put in order before it
  // is written.
  explicit FolderPlan(const Value& root, const std::string& scratch_folder = {});

  const DataPlan& data() const { return data_; }
  // The content of kMetadataFile.
  std::string metadata() const;

 private:
  struct Stored {
    FlatItem item;
    DataPlan::Place place = {};
  };
  class Content;

  std::vector<Stored> items_;  // in the tree's order
  DataPlan data_;
};

}  // namespace cairn::dcp
