// Merges the trees that the ranks of a job saved, each in its own file, into one tree.
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
  // Paths of values (not tensors) that differ between the files. `value` has the values of the
  // first file.
  std::vector<std::string> differing = {};
};

// Returns the tree of the first file, with a full tensor for each DTensor: see gather_shards(). All
// files must have the same keys, and tensors that are not distributed must have the same elements:
// the elements are compared. Throws UsageError otherwise. Also throws UsageError if there are
// several files and none holds a distributed tensor. In a single file, a DTensor stays as it is
// unless the file holds all of it. An object at several places stays one object.
Consolidated consolidate(const std::vector<RankFile>& files, const std::string& scratch_folder);

}  // namespace cairn
