// The ranks as a rectangle with rows of `shards`. The ranks of a row share one whole of a sharded
// module. The ranks of a column have the same part of it.
#pragma once

#include <cstdint>
#include <string>

#include "cairn/dist/sharding.h"

#include "dist/group.h"

namespace cairn::dist {

// The sides of that rectangle.
struct MeshShape {
  std::int64_t replicas = 1;
  std::int64_t shards = 1;
  bool reshards_after_forward = true;  // FULL_SHARD, not SHARD_GRAD_OP.
};

// The shape that `config` gives `world_size` ranks, of which `local_world_size` are on this
// machine. Throws UsageError if no shape is possible.
MeshShape mesh_shape(const FSDPConfig& config, std::int64_t world_size,
                     std::int64_t local_world_size);

class ShardMesh {
 public:
  // Connects the ranks, for tensors on `device`. Call it on all ranks together.
  ShardMesh(Group& group, const MeshShape& shape, at::Device device);

  Group& group() const { return group_; }
  std::int64_t shards() const { return shape_.shards; }
  std::int64_t replicas() const { return shape_.replicas; }
  std::int64_t shard() const { return group_.launch().rank % shape_.shards; }
  std::int64_t replica() const { return group_.launch().rank / shape_.shards; }
  bool reshards_after_forward() const { return shape_.reshards_after_forward; }

  // Between the ranks that share one whole.
  const Channel& row() const { return row_; }
  // Between the ranks that have the same part; only with several replicas.
  const Channel& column() const { return column_; }

 private:
  Group& group_;
  MeshShape shape_;
  Channel row_;
  Channel column_;
};

}  // namespace cairn::dist
