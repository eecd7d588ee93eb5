// A torch.distributed.checkpoint folder: docs/formats/dcp.md.
//
// Reading:
//  1. `.metadata`, or every rank's `__N.metadata`, says what there is and where.
//  2. The chunks of every tensor must fill it, without overlaps, and lie in files that are there
//     and long enough, each in bytes of its own: whatever a few bytes of metadata claim, no more is
//     read than the files hold. Those inside a safetensors file are looked up in its header.
//  3. A tensor in one piece is a view of the mapped file. One in several is put together when its
//     bytes are asked for: in memory when it is small, in a scratch file otherwise.
//  4. The tree is the one that was saved, as far as the metadata knows it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "cairn/format/torch_file.h"
#include "cairn/value.h"

#include "format/dcp/copy_box.h"
#include "format/dcp/metadata.h"
#include "io/memory_budget.h"

namespace cairn::dcp {

// Maps a file of the folder by its plain name. NotFoundError when it is not there.
using OpenFile = std::function<SharedBytes(const std::string& name)>;

// Immutable; safe for concurrent reading. Values that it gave out stay valid when it is gone.
class Folder : public std::enable_shared_from_this<Folder> {
 public:
  // CorruptError naming the file that is missing or too short, or the item whose chunks are wrong.
  // `scratch_folder` is for ScratchFile.
  static std::shared_ptr<const Folder> open(Metadata metadata, const OpenFile& open_file,
                                            std::string scratch_folder = {});

  const Metadata& metadata() const { return metadata_; }
  const SharedBytes& file(std::string_view name) const { return files_.find(name)->second; }
  std::size_t data_files() const { return files_.size(); }
  std::uint64_t bytes() const;     // of all data files
  bool has_plain_tensors() const;  // stored as elements alone, in a safetensors file

  // The whole tree. No tensor's bytes are read.
  Value read() const;

  // The elements of a box of a tensor, in row-major order, into `out`, which has room for just
  // them. UsageError for a box outside of the tensor.
  void read_box(const Item& item, const Box& box, std::span<std::byte> out) const;

  // The torch.save file in which a chunk that is not plain is stored. Its offsets count from
  // location.offset.
  TorchFile open_chunk_file(const Item& item, const Chunk& chunk) const;
  // The same, and its tensor, which must be what the metadata says.
  OpenChunk open_chunk(const Item& item, const Chunk& chunk) const;

 private:
  Folder(Metadata metadata, std::string scratch_folder);

  void open_files(const OpenFile& open_file);
  void check_locations() const;
  Value value_of(const Item& item, MemoryBudget& memory) const;
  TensorView tensor_of(const Item& item) const;
  SharedBytes assemble(const Item& item) const;

  Metadata metadata_;
  std::string scratch_folder_;
  std::map<std::string, SharedBytes, std::less<>> files_;
};

}  // namespace cairn::dcp
