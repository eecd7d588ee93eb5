// A torch.distributed.checkpoint folder: docs/formats/dcp.md.
//
// Reading:
//  1. `.metadata`, or every rank's `__N.metadata`, says what there is and where.
//  2. The chunks of every tensor must fill it, without overlaps, and lie in files that are there
//     and long enough, each in bytes of its own: whatever a few bytes of metadata claim, no more is
//     read than the files hold. Those inside a safetensors file are looked up in its header.
//  3. What stands around the elements, and objects, are read ahead: with one call for each data
//     file, unless they are more than 16 MiB.
//  4. A tensor in one piece is a range of its file. One in several is put together when its bytes
//     are asked for, out of ranges: in memory when it is small, in a scratch file otherwise.
//  5. The tree is the one that was saved, as far as the metadata knows it.
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

// Opens a file of the folder by its plain name; from several threads. NotFoundError when it is not
// there.
using OpenFile = std::function<std::shared_ptr<const ByteSource>(const std::string& name)>;
// Called with each chunk's torch.save file before any byte of its tensor is given out, so that
// reads can be verified. The offsets of the file's records count from the location.offset of the
// chunk. Called from several threads, also for a chunk that was opened before. Its exceptions are
// passed on.
using OnChunk = std::function<void(const Piece&, const TorchFile&)>;

// How tensors are read, if not from the files that say where the tensors are.
struct TensorAccess {
  OpenFile open_file = nullptr;  // gives the same bytes; null: the same file
  OnChunk on_chunk = nullptr;    // may be null
};

class TreeReader;

// Immutable; safe for concurrent reading. Values that it gave out stay valid when it is gone.
class Folder : public std::enable_shared_from_this<Folder> {
 public:
  // CorruptError naming the file that is missing or too short, or the item whose chunks are wrong.
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

  // The whole tree. No tensor's bytes are read.
  Value read() const;
  friend TreeReader;  // which makes it of pieces that somebody goes through anyway

  // The elements of a box of a tensor, in row-major order, into `out`, which has room for just
  // them. UsageError for a box outside of the tensor.
  void read_box(const Item& item, const Box& box, std::span<std::byte> out) const;

  // Boxes of tensors in several chunks, each in row-major order: of what they are put together is
  // opened here, with one read of each data file for all of them. They keep the folder alive.
  struct ItemBox {
    const Item* item = nullptr;
    Box box = {};
  };
  std::vector<std::shared_ptr<const Storage>> open_boxes(std::span<const ItemBox> boxes) const;

  // Calls use(piece, heads) for some pieces, in the order in which they lie in their files; `heads`
  // has read ahead what opening this one takes.
  void for_each(std::vector<Piece> pieces,
                const std::function<void(const Piece&, const ChunkHeads&)>& use) const;

  // The torch.save file in which a chunk that is not plain is stored. Its offsets count from
  // location.offset. Reads what `heads` does not have.
  TorchFile open_chunk_file(const Piece& piece, const ChunkHeads& heads) const;
  // The same, and its tensor, which must be what the metadata says.
  OpenChunk open_chunk(const Piece& piece, const ChunkHeads& heads) const;
  OpenChunk open_chunk(const Piece& piece, const TorchFile& torch_file) const;

 private:
  Folder(Metadata metadata, std::string scratch_folder);

  void open_files(const OpenFile& open_file, const OpenFile& open_tensors);
  void check_end(const Item& item, const Location& location) const;
  void check_locations() const;
  TensorView tensor_of(const Item& item) const;  // put together when it is asked for
  TensorView tensor_of(const Item& item, const TensorView& in_one_place) const;
  OpenChunk open_plain(const Piece& piece) const;
  std::vector<OpenChunk> open_all(std::vector<Piece> pieces) const;
  std::vector<OpenChunk> open_all(const Item& item) const;
  // A tensor in several chunks: a part of its elements, as they lie in row-major order, and all of
  // them, as a Storage wants them.
  void read_boxes(const Item& item, std::span<const Box> boxes, std::span<std::byte> out) const;
  void read_elements(const Item& item, std::uint64_t offset, std::span<std::byte> into) const;
  SharedBytes assemble(const Item& item) const;
  class ChunksStorage;
  class BoxStorage;

  Metadata metadata_;
  std::string scratch_folder_;
  OnChunk on_chunk_;
  FilesByName files_;         // the places of tensors are read from these
  FilesByName tensor_files_;  // the same names; tensors are read from these
};

// The tree that Folder::read() gives, for who looks at every piece of a folder once: opening them
// again for the tree costs as much. What the thread makes of a tree while it lives lies in its
// NodeArena: to be made, used and gone on one thread.
class TreeReader {
 public:
  // `folder` must outlive it.
  explicit TreeReader(const Folder& folder);

  // Whether the tree takes something of this piece; the others are read when they are asked for.
  static bool takes(const Piece& piece);
  // One that it takes; all of them once. CorruptError, UnsupportedError, StorageError.
  void add(const Piece& piece, const ChunkHeads& heads);
  // The same of one that is open: an object, or a tensor.
  void add(const Piece& piece, const TorchFile& object);
  void add(const Piece& piece, const OpenChunk& tensor);
  // After all of them. CorruptError when they contradict one another.
  Value take();

 private:
  Value& value_of(const Piece& piece);

  detail::NodeArena arena_;
  const Folder& folder_;
  MemoryBudget memory_;  // one for all: the folder may have as many files as it has bytes
  std::vector<Value> values_;
};

}  // namespace cairn::dcp
