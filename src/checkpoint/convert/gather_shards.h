// A full tensor of the shards that the ranks of a mesh have of it.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "cairn/dtensor.h"

namespace cairn {

// What one file has of a tensor.
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

// Returns the full tensor: the local one where each rank has all of it, otherwise one that is put
// together when its bytes are asked for; a large one goes through a file in `scratch_folder`.
// UsageError when the shards are not of one tensor, when a coordinate of the mesh is there twice,
// and when one is missing. A job can have copies of the tensor on several meshes (FSDP beside
// tensor parallelism): reads them, and throws UsageError unless they have the same elements.
// UnsupportedError for partial and for quantized tensors; CorruptError.
TensorView gather_shards(std::span<const ShardOf> shards, MeshIds& meshes,
                         const std::string& scratch_folder);

}  // namespace cairn
