// Which boxes of a full tensor the shard of a DTensor is.
#pragma once

#include <vector>

#include "cairn/dtensor.h"

#include "format/dcp/metadata.h"

namespace cairn {

struct ShardBox {
  dcp::Box box;  // in the full tensor
  Dims at;       // where the box begins in the shard
};

// The boxes of the rank at `coordinate` of the mesh, as PyTorch cuts: in equal pieces that are
// rounded up, so that the last ones are smaller or empty. One box, unless a strided placement makes
// several. None for an empty shard. CorruptError unless the local tensor is as large as all of
// them. `tensor` has no partial placement.
std::vector<ShardBox> shard_boxes(const DTensor& tensor, const Dims& coordinate);

}  // namespace cairn
