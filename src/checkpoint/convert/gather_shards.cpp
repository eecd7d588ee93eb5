#include "checkpoint/convert/gather_shards.h"

#include <algorithm>
#include <memory>

#include "cairn/error.h"

#include "checkpoint/convert/shard_boxes.h"
#include "format/dcp/copy_box.h"
#include "format/dcp/metadata/layout.h"
#include "io/memory/spill.h"
#include "value/tensor/assembled_storage.h"

namespace cairn {
namespace {

using Chunks = std::vector<dcp::OpenChunk>;

constexpr std::uint64_t kGatherWindow = std::uint64_t{8} << 20;

bool has_source(const dcp::OpenChunk& chunk) { return chunk.tensor.storage->source() != nullptr; }

// All elements of a tensor in row-major order, put together from its shards.
class ShardsStorage final : public AssembledStorage {
 public:
  ShardsStorage(const DTensor& tensor, Chunks chunks, std::string scratch_folder)
      : AssembledStorage(dcp::box_bytes(whole(tensor), tensor.local.dtype), "cpu"),
        dtype_(tensor.local.dtype),
        box_(whole(tensor)),
        chunks_(std::move(chunks)),
        are_ranges_(std::ranges::all_of(chunks_, has_source)),
        scratch_folder_(std::move(scratch_folder)) {}

  bool add_ranges(std::span<std::byte> into, std::vector<SourceRange>& ranges) const override {
    return are_ranges_ && dcp::add_ranges(chunks_, box_, into, ranges);
  }

 protected:
  void read(std::uint64_t offset, std::span<std::byte> into) const override {
    Chunks made;
    dcp::copy_elements(opened(made), {dtype_, box_}, offset, into);
  }

  SharedBytes load() const override {
    if (size() <= kMaxBytesInMemory) return Storage::load();
    Chunks made;
    const Chunks& chunks = opened(made);
    return spill(size(), scratch_folder_, [&](ByteSink& sink) {
      std::vector<std::byte> buffer(kGatherWindow);
      const auto most = static_cast<std::int64_t>(kGatherWindow / item_size(dtype_));
      dcp::for_each_window(box_.sizes, most, [&](const dcp::Box& window) {
        const auto out = std::span(buffer).first(dcp::box_bytes(window, dtype_));
        dcp::copy_overlaps(chunks, window, out);
        sink.write(out);
      });
    });
  }

 private:
  static dcp::Box whole(const DTensor& tensor) {
    return {.offsets = Dims(tensor.shape.size(), 0), .sizes = tensor.shape};
  }

  // Loads the shards that are not ranges of a source (big-endian ones) into `made`.
  const Chunks& opened(Chunks& made) const {
    if (are_ranges_) return chunks_;
    made = chunks_;
    for (dcp::OpenChunk& chunk : made) {
      if (!has_source(chunk)) chunk.bytes = chunk.tensor.storage->bytes();
    }
    return made;
  }

  DType dtype_;
  dcp::Box box_;
  Chunks chunks_;
  bool are_ranges_;
  std::string scratch_folder_;
};

std::vector<ShardBox> boxes_of(const ShardOf& shard) {
  try {
    return shard_boxes(shard.tensor, *shard.tensor.mesh.coordinate);
  } catch (Error& e) {
    e.add_context(std::string(shard.file));
    throw;
  }
}

void add_chunks(const ShardOf& shard, Chunks& chunks) {
  const DTensor& tensor = shard.tensor;
  for (const ShardBox& part : boxes_of(shard)) {
    dcp::OpenChunk chunk{.box = part.box, .tensor = tensor.local, .bytes = {}};
    chunk.tensor.shape = part.box.sizes;
    for (std::size_t d = 0; d < part.at.size(); ++d) {
      chunk.tensor.storage_offset += part.at[d] * tensor.local.strides[d];
    }
    chunks.push_back(std::move(chunk));
  }
}

// Checks that each element of the tensor is in exactly one chunk.
void check_chunks(const DTensor& tensor, const Chunks& chunks) {
  dcp::Item item{.fqn = tensor.class_name, .dtype = tensor.local.dtype, .size = tensor.shape};
  for (const dcp::OpenChunk& chunk : chunks) {
    item.chunks.push_back({.box = chunk.box, .location = {}});
  }
  dcp::check_layout(item);
}

TensorView full_tensor(const DTensor& tensor, Chunks chunks, const std::string& scratch_folder) {
  TensorView full{.dtype = tensor.local.dtype,
                  .shape = tensor.shape,
                  .strides = contiguous_strides(tensor.shape),
                  .requires_grad = tensor.requires_grad};
  if (byte_size(full) == 0) {
    full.storage = storage_of(SharedBytes());
    return full;
  }
  check_chunks(tensor, chunks);
  full.storage = std::make_shared<const ShardsStorage>(tensor, std::move(chunks), scratch_folder);
  return full;
}

std::string numbers(const Dims& dims) { return dcp::describe(dims); }

void check_same_spec(const ShardOf& first, const ShardOf& other) {
  const DTensor& a = first.tensor;
  const DTensor& b = other.tensor;
  const bool is_same = a.local.dtype == b.local.dtype && a.shape == b.shape &&
                       a.mesh.shape == b.mesh.shape && a.placements == b.placements &&
                       a.order == b.order;
  if (is_same) return;
  throw UsageError(std::string(first.file) + " has " + std::string(name(a.local.dtype)) + " " +
                   placement_text(a) + ", and " + std::string(other.file) + " " +
                   std::string(name(b.local.dtype)) + " " + placement_text(b) +
                   ": these are not shards of one tensor");
}

void check_readable(const ShardOf& shard) {
  const DTensor& tensor = shard.tensor;
  for (const Placement& placement : tensor.placements) {
    if (placement.kind != Placement::Kind::kPartial) continue;
    throw UnsupportedError(std::string(shard.file) + " has " + placement_text(tensor) +
                           ": each rank has a term that is still to be reduced, and none has the "
                           "tensor; save its full_tensor() in Python");
  }
  if (tensor.local.quantizer != nullptr || elements_per_byte(tensor.local.dtype) != 1) {
    throw UnsupportedError(std::string(shard.file) + " has shards of a quantized tensor");
  }
}

// Returns the first coordinate of the mesh that is not in `there`. At least one coordinate must be
// missing.
Dims missing_coordinate(const Dims& mesh, const std::map<Dims, const ShardOf*>& there) {
  Dims at(mesh.size(), 0);
  while (there.contains(at)) {
    for (std::size_t d = mesh.size(); d-- > 0;) {
      if (++at[d] < mesh[d]) break;
      at[d] = 0;
    }
  }
  return at;
}

// The shards of one mesh, one for each of its coordinates.
class MeshShards {
 public:
  void add(const ShardOf& shard) {
    const auto& coordinate = shard.tensor.mesh.coordinate;
    if (!coordinate) {
      throw UsageError(std::string(shard.file) + " has " + placement_text(shard.tensor) +
                       ": the file is of a rank outside of the mesh, or does not say which rank "
                       "wrote it; leave it out");
    }
    const auto [there, is_new] = by_coordinate_.emplace(*coordinate, &shard);
    if (is_new) return;
    throw UsageError(std::string(there->second->file) + " and " + std::string(shard.file) +
                     " are of the same rank, at " + numbers(*coordinate) + " of the mesh " +
                     numbers(shard.tensor.mesh.shape) + ": give one file for each rank");
  }

  void check_complete() const {
    const DTensor& tensor = by_coordinate_.begin()->second->tensor;
    std::size_t ranks = 1;
    for (const std::int64_t size : tensor.mesh.shape) {
      ranks *= static_cast<std::size_t>(size);
    }
    if (by_coordinate_.size() == ranks) return;
    throw UsageError("the set of files is not complete: a mesh " + numbers(tensor.mesh.shape) +
                     " has " + std::to_string(ranks) + " ranks, and there are " +
                     std::to_string(by_coordinate_.size()) + "; the file of the rank at " +
                     numbers(missing_coordinate(tensor.mesh.shape, by_coordinate_)) +
                     " is missing: give the files of all ranks");
  }

  // If there are several copies of a shard, takes the first.
  TensorView gather(const std::string& scratch_folder) const {
    Chunks chunks;
    for (const auto& [coordinate, shard] : by_coordinate_) {
      if (is_first_copy(shard->tensor)) add_chunks(*shard, chunks);
    }
    return full_tensor(by_coordinate_.begin()->second->tensor, std::move(chunks), scratch_folder);
  }

  std::string_view file() const { return by_coordinate_.begin()->second->file; }

 private:
  static bool is_first_copy(const DTensor& tensor) {
    for (std::size_t d = 0; d < tensor.placements.size(); ++d) {
      const bool is_copied = tensor.placements[d].kind == Placement::Kind::kReplicate;
      if (is_copied && (*tensor.mesh.coordinate)[d] != 0) return false;
    }
    return true;
  }

  std::map<Dims, const ShardOf*> by_coordinate_;
};

bool is_replicated(const DTensor& tensor) {
  return std::ranges::all_of(tensor.placements, [](const Placement& placement) {
    return placement.kind == Placement::Kind::kReplicate;
  });
}

TensorView local_as_full(const ShardOf& shard) {
  const DTensor& tensor = shard.tensor;
  if (tensor.local.shape != tensor.shape) {
    throw CorruptError(std::string(shard.file) +
                       ": a copy of another size than its tensor: " + placement_text(tensor));
  }
  TensorView full = tensor.local;
  full.requires_grad = tensor.requires_grad;
  return full;
}

}  // namespace

std::size_t MeshIds::id_of(const DeviceMesh& mesh) {
  const auto [known, is_new] = known_.emplace(&mesh.object.as_foreign(), 0);
  if (is_new) known->second = ids_.emplace(mesh_ranks(mesh), ids_.size()).first->second;
  return known->second;
}

bool is_whole(const DTensor& tensor) {
  for (std::size_t d = 0; d < tensor.placements.size(); ++d) {
    const bool is_copied = tensor.placements[d].kind == Placement::Kind::kReplicate;
    if (!is_copied && tensor.mesh.shape[d] != 1) return false;
  }
  return tensor.mesh.coordinate.has_value();
}

TensorView gather_shards(std::span<const ShardOf> shards, MeshIds& meshes,
                         const std::string& scratch_folder) {
  const ShardOf& first = shards.front();
  std::map<std::size_t, MeshShards> by_mesh;
  for (const ShardOf& shard : shards) {
    check_readable(shard);
    check_same_spec(first, shard);
    by_mesh[meshes.id_of(shard.tensor.mesh)].add(shard);
  }
  if (is_replicated(first.tensor)) return local_as_full(first);
  for (const auto& [id, of_mesh] : by_mesh) {
    of_mesh.check_complete();
  }
  const MeshShards& kept = by_mesh.begin()->second;
  TensorView full = kept.gather(scratch_folder);
  for (auto other = std::next(by_mesh.begin()); other != by_mesh.end(); ++other) {
    if (Value(full) == Value(other->second.gather(scratch_folder))) continue;
    throw UsageError("the ranks of two meshes have different elements: " +
                     std::string(kept.file()) + " and " + std::string(other->second.file()) +
                     ": these are not copies of one tensor, and only one can have the name");
  }
  return full;
}

}  // namespace cairn
