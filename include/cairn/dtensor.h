// DTensor: one rank's shard of a tensor that PyTorch distributes over a mesh of ranks (FSDP2,
// tensor parallelism), as torch.save writes it.
//
//   const Value state = load("fsdp2-rank0.pt");
//   for (const auto& [path, object] : foreign_objects(state)) {
//     if (const auto shard = find_dtensor(*object)) {
//       std::cout << path << ": " << placement_text(*shard) << "\n";
//     }
//   }
//
// In a Value a DTensor is the Foreign that the file holds, so that it can be written again
// unchanged. convert_ranks() (cairn/checkpoint/convert.h) makes full tensors from the shards of all
// ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cairn/export.h"
#include "cairn/foreign.h"
#include "cairn/tensor.h"
#include "cairn/value.h"

namespace CAIRN_PUBLIC cairn {

// How a tensor is distributed over one dimension of the mesh.
struct Placement {
  enum class Kind : std::uint8_t {
    kReplicate,     // every rank has all of it
    kShard,         // cut along `dim`, as torch.chunk() cuts
    kStridedShard,  // cut into `split_factor` pieces along `dim`, and each piece over the ranks
    kPartial,       // every rank has a term; their reduction is the tensor
  };
  Kind kind = Kind::kReplicate;
  std::int64_t dim = 0;           // of kShard and kStridedShard
  std::int64_t split_factor = 1;  // of kStridedShard
  std::string reduce_op = {};     // of kPartial: "sum"; empty if the file does not say it

  bool operator==(const Placement&) const = default;
};

// The ranks over which tensors are distributed.
struct DeviceMesh {
  std::string device_type = {};             // "cuda"
  Dims shape = {};                          // ranks along each dimension
  std::vector<std::string> dim_names = {};  // empty if the dimensions have no names
  // Where in the mesh the rank is that wrote the file; nullopt: it is not in the mesh.
  std::optional<Dims> coordinate = {};
  Value object = {};  // a Foreign: the mesh as the file holds it
};

struct DTensor {
  std::string class_name = {};  // "torch.distributed.tensor.DTensor"
  TensorView local = {};        // the shard of the rank that wrote the file
  Dims shape = {};              // of the full tensor
  bool requires_grad = false;
  DeviceMesh mesh = {};
  std::vector<Placement> placements = {};  // one for each dimension of the mesh
  // The dimensions of the mesh, in the order in which they cut the tensor.
  std::vector<std::size_t> order = {};
};

// Reads `object` as a DTensor. Knows the DTensors of PyTorch 2.0 and newer, in every module that
// has held the class. Returns nullopt for other objects, and for a layout or placements that cairn
// does not know. Throws CorruptError if the DTensor contradicts itself. Reads no tensor.
std::optional<DTensor> find_dtensor(const Foreign& object);

// The shard of a DTensor, whatever its mesh is; nullptr for other objects. Valid as long as
// `object`.
const TensorView* local_tensor(const Foreign& object);
// As above, for any Value.
const TensorView* local_tensor(const Value& value);

// The ranks of the mesh, in row-major order of its dimensions; empty if the file does not name
// them. Takes time in proportion to their number.
Dims mesh_ranks(const DeviceMesh& mesh);

// "Shard(0)", "_StridedShard(0, split_factor=2)", "Replicate()", "Partial(sum)".
std::string text_of(const Placement& placement);
// "[4, 4] of [8, 4], (Shard(0)) at (1) of a mesh (2)".
std::string placement_text(const DTensor& tensor);

}  // namespace cairn
