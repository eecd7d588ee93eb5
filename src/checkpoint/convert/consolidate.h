// One tree of those that the ranks of a job saved, each in a file of its own.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cairn/value.h"

namespace cairn {

struct RankFile {
  std::string name;  // for messages
  Value value;
};

struct Consolidated {
  Value value;
  std::size_t gathered = 0;  // DTensors that are full tensors now
  // Paths of values, tensors not among them, that are not the same in all files: those of the first
  // file are in `value`.
  std::vector<std::string> differing = {};
};

// Returns the tree of the first file, with a full tensor for each DTensor: see gather_shards(). All
// files have the same keys, and the same elements in tensors that are not distributed, which are
// compared. UsageError otherwise, and when nothing in several files is distributed. In one file
// alone, a DTensor stays as it is unless the file holds all of it. What is one object at several
// places stays one.
Consolidated consolidate(const std::vector<RankFile>& files, const std::string& scratch_folder);

}  // namespace cairn
