// Finds the boxes of a full tensor that make up the shard of a DTensor.
#pragma once

#include <vector>

#include "cairn/dtensor.h"

#include "format/dcp/metadata/metadata.h"

namespace cairn {

struct ShardBox {
  dcp::Box box;  // in the full tensor
  Dims at;       // where the box begins in the shard
};

// Returns the boxes of the rank at `coordinate` of the mesh, as PyTorch cuts: into pieces of one
// size, rounded up. So the last pieces may be smaller or empty. A shard has one box, unless a
// strided placement makes several boxes; an empty shard has none. Throws CorruptError unless the
// local tensor is as large as all boxes together. `tensor` must have no partial placement.
std::vector<ShardBox> shard_boxes(const DTensor& tensor, const Dims& coordinate);

}  // namespace cairn
