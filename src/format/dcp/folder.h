// A torch.distributed.checkpoint folder: docs/formats/dcp.md.
//
// Reading:
//  1. `.metadata`, or every rank's `__N.metadata`, says what there is and where.
//  2. The chunks of every tensor must fill it without overlaps. They must lie in files that exist
//     and are long enough, and share no bytes. So no more is read than the files hold, whatever a
//     few bytes of metadata claim. Chunks in a safetensors file are looked up in its header.
//  3. The bytes around the elements, and objects, are read ahead: with one call for each data file,
//     unless they are more than 16 MiB.
//  4. A tensor in one piece is a range of its file. A tensor in several pieces is assembled from
//     ranges when its bytes are asked for: in memory if it is small, else in a scratch file.
//  5. The result is the tree that was saved, as far as the metadata describes it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cairn/detail/node_arena.h"
#include "cairn/format/torch_file.h"
#include "cairn/value.h"

#include "format/dcp/chunk_heads.h"
#include "format/dcp/copy_box.h"
#include "format/dcp/metadata/metadata.h"
#include "io/memory/memory_budget.h"

namespace cairn::dcp {

// Opens a file of the folder by its plain name. Called on several threads. Throws NotFoundError if
// there is no such file.
using OpenFile = std::function<std::shared_ptr<const ByteSource>(const std::string& name)>;
// Called with each chunk's torch.save file before any byte of its tensors is handed out, so that
// reads can be verified. The offsets of the file's records count from the chunk's location.offset.
// Called on several threads, and again if a chunk is opened again. Its exceptions are passed on.
using OnChunk = std::function<void(const Piece&, const TorchFile&)>;

// How tensors are read, if not from the same opened files as the tensors' places.
struct TensorAccess {
  OpenFile open_file = nullptr;  // opens the same bytes; null: tensors are read from the same files
  OnChunk on_chunk = nullptr;    // may be null
};

class TreeReader;

// Immutable; safe for concurrent reading. Values from it stay valid after it is destroyed.
class Folder : public std::enable_shared_from_this<Folder> {
 public:
  // Throws CorruptError that names a missing or too short file, or the item whose chunks are wrong.
  // `scratch_folder` is for ScratchFile.
  static std::shared_ptr<const Folder> open(Metadata metadata, const OpenFile& open_file,
                                            std::string scratch_folder = {},
                                            const TensorAccess& tensors = {});

  const Metadata& metadata() const { return metadata_; }
  // The source of a data file; the tensors are ranges of it.
  const std::shared_ptr<const ByteSource>& file(std::string_view name) const {
    return tensor_files_.find(name)->second;
  }
  std::size_t data_files() const { return files_.size(); }
  std::uint64_t bytes() const;     // of all data files
  bool has_plain_tensors() const;  // stored as elements alone, in a safetensors file

  // Returns the whole tree. Reads no bytes of tensors.
  Value read() const;
  friend TreeReader;  // builds the tree from pieces that its caller opens anyway

  // Reads the elements of a box of a tensor, in row-major order, into `out`, which must have
  // exactly their size. Throws UsageError for another size, or for a box outside of the tensor.
  void read_box(const Item& item, const Box& box, std::span<std::byte> out) const;

  // Returns storages for boxes of tensors in several chunks. Each has the box's elements in
  // row-major order. Opens the chunks here, with one read of each data file for all boxes. The
  // storages keep the folder alive.
  struct ItemBox {
    const Item* item = nullptr;
    Box box = {};
  };
  std::vector<std::shared_ptr<const Storage>> open_boxes(std::span<const ItemBox> boxes) const;

  // Calls use(piece, heads) for these pieces, in the order of their places in the files. `heads`
  // has already read what opening the piece needs.
  void for_each(std::vector<Piece> pieces,
                const std::function<void(const Piece&, const ChunkHeads&)>& use) const;

  // Opens the torch.save file of a chunk, which must not be plain. The offsets in the file count
  // from location.offset. Bytes that are not in `heads` are read now.
  TorchFile open_chunk_file(const Piece& piece, const ChunkHeads& heads) const;
  // Returns the tensor of the chunk, which must be as the metadata says.
  OpenChunk open_chunk(const Piece& piece, const ChunkHeads& heads) const;
  OpenChunk open_chunk(const Piece& piece, const TorchFile& torch_file) const;

 private:
  Folder(Metadata metadata, std::string scratch_folder);

  void open_files(const OpenFile& open_file, const OpenFile& open_tensors);
  void check_end(const Item& item, const Location& location) const;
  void check_locations() const;
  TensorView tensor_of(const Item& item) const;  // assembled when its bytes are asked for
  TensorView tensor_of(const Item& item, const TensorView& in_one_place) const;
  OpenChunk open_plain(const Piece& piece) const;
  std::vector<OpenChunk> open_all(std::vector<Piece> pieces) const;
  std::vector<OpenChunk> open_all(const Item& item) const;
  // For a tensor in several chunks: read_boxes() reads boxes, one after another, read_elements() a
  // byte range of the elements in row-major order, as a Storage needs it.
  void read_boxes(const Item& item, std::span<const Box> boxes, std::span<std::byte> out) const;
  void read_elements(const Item& item, std::uint64_t offset, std::span<std::byte> into) const;
  SharedBytes assemble(const Item& item) const;
  class ChunksStorage;
  class BoxStorage;

  Metadata metadata_;
  std::string scratch_folder_;
  OnChunk on_chunk_;
  FilesByName files_;         // read to find where tensors lie
  FilesByName tensor_files_;  // the same names; read for the bytes of tensors
};

// Builds the tree of Folder::read() for a caller that opens every piece of the folder anyway.
// Opening the pieces again for the tree would double the cost. While the reader lives, the nodes
// that its thread makes are in the reader's NodeArena: create, use and destroy it on one thread.
class TreeReader {
 public:
  // `folder` must outlive the reader.
  explicit TreeReader(const Folder& folder);

  // Returns whether the tree needs this piece. Other pieces are read when their bytes are asked
  // for.
  static bool needs(const Piece& piece);
  // Adds a piece that the tree needs; each must be added once. Throws CorruptError,
  // UnsupportedError, StorageError.
  void add(const Piece& piece, const ChunkHeads& heads);
  // As above, for a piece that is already open: an object, or a tensor.
  void add(const Piece& piece, const TorchFile& object);
  void add(const Piece& piece, const OpenChunk& tensor);
  // Returns the tree. Call this after all pieces are added. Throws CorruptError if pieces
  // contradict one another.
  Value take();

 private:
  Value& value_of(const Piece& piece);

  detail::NodeArena arena_;
  const Folder& folder_;
  MemoryBudget memory_;  // one budget for all files: there may be as many files as bytes
  std::vector<Value> values_;
};

}  // namespace cairn::dcp
