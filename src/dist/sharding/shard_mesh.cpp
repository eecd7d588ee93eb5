#include "dist/sharding/shard_mesh.h"

#include <fmt/format.h>

#include <atomic>
#include <vector>

#include "cairn/error.h"

namespace cairn::dist {
namespace {

bool is_hybrid(const Word<ShardingStrategy>& strategy) {
  return strategy == ShardingStrategy::kHybridShard ||
         strategy == ShardingStrategy::kHybridShardZero2;
}

}  // namespace

MeshShape mesh_shape(const FSDPConfig& config, std::int64_t world_size,
                     std::int64_t local_world_size) {
  check_fsdp_config(config);
  const auto& strategy = config.sharding_strategy;
  MeshShape shape;
  shape.reshards_after_forward =
      strategy == ShardingStrategy::kFullShard || strategy == ShardingStrategy::kHybridShard;
  if (strategy == ShardingStrategy::kNoShard) {
    shape.replicas = world_size;
    return shape;
  }
  std::int64_t shards = config.data_parallel_shard_degree;
  std::int64_t replicas = config.data_parallel_replicate_degree.value_or(1);
  // As in PyTorch: if the config gives no numbers, each machine has one whole.
  const bool is_by_machine =
      is_hybrid(strategy) && shards == -1 && !config.data_parallel_replicate_degree;
  if (is_by_machine) shards = local_world_size;
  if (is_by_machine || replicas == -1) replicas = world_size / shards;
  if (shards == -1) shards = world_size / replicas;
  if (shards * replicas != world_size) {
    throw UsageError(fmt::format(
        "parallelism_config: data_parallel_replicate_degree ({}) times data_parallel_shard_degree "
        "({}) must be the number of ranks, which is {}",
        replicas, shards, world_size));
  }
  shape.shards = shards;
  shape.replicas = replicas;
  return shape;
}

ShardMesh::ShardMesh(Group& group, const MeshShape& shape, at::Device device)
    : group_(group), shape_(shape) {
  // Each module has its own connections, so that each has its own order of messages.
  static std::atomic<int> meshes = 0;
  const std::string number = std::to_string(meshes++);
  std::vector<std::int64_t> row;
  for (std::int64_t i = 0; i < shape.shards; ++i)
    row.push_back(replica() * shape.shards + i);
  std::vector<std::int64_t> column;
  for (std::int64_t i = 0; i < shape.replicas; ++i)
    column.push_back(shard() + i * shape.shards);
  row_ = group.connect_some(fmt::format("row{}/{}", number, replica()), row, device);
  column_ = group.connect_some(fmt::format("column{}/{}", number, shard()), column, device);
}

}  // namespace cairn::dist
