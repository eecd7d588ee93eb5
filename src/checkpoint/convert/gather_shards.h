// Puts a full tensor together from the shards of the ranks of a mesh.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "cairn/dtensor.h"

namespace cairn {

// A file's shard of a tensor.
struct ShardOf {
  std::string_view file;  // for messages
  DTensor tensor;
};

// Tells meshes apart by their ranks. The ranks of a mesh are read once, however many tensors are
// distributed over it.
class MeshIds {
 public:
  std::size_t id_of(const DeviceMesh& mesh);

 private:
  std::map<Dims, std::size_t> ids_;  // by ranks
  std::unordered_map<const Foreign*, std::size_t> known_;
};

// Whether the file that holds the shard holds the full tensor.
bool is_whole(const DTensor& tensor);

// Returns the full tensor. If each rank has all of the tensor, the result is the local tensor.
// Otherwise the tensor is put together when its bytes are asked for. A large tensor goes through a
// file in `scratch_folder`. Throws UsageError if the shards belong to different tensors, or if a
// coordinate of the mesh is missing or appears twice. A job can have copies of the tensor on
// several meshes (FSDP beside tensor parallelism). Reads these copies, and throws UsageError unless
// they have the same elements. Throws UnsupportedError for partial and quantized tensors, and
// CorruptError.
TensorView gather_shards(std::span<const ShardOf> shards, MeshIds& meshes,
                         const std::string& scratch_folder);

}  // namespace cairn
