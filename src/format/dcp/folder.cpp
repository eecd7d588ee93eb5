#include "format/dcp/folder.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>

#include "cairn/error.h"

#include "core/checked.h"
#include "format/compression/codec.h"
#include "format/dcp/metadata/layout.h"
#include "format/dcp/metadata/nesting.h"
#include "format/dcp/safetensors_chunks.h"
#include "format/find_format.h"
#include "format/read_within.h"
#include "io/bytes/source_part.h"
#include "io/memory/scratch_file.h"
#include "io/memory/spill.h"
#include "io/threads/parallel.h"
#include "value/tensor/strided.h"

namespace cairn::dcp {
namespace {

// Most bytes around elements that are read ahead at once.
constexpr std::uint64_t kMaxHeadBytes = std::uint64_t{16} << 20;
// A tensor in several chunks is written to a scratch file in pieces of this size.
constexpr std::uint64_t kWindowBytes = std::uint64_t{8} << 20;

// Calls `read`, which reads a part of a data file. Errors then count offsets from the file's start.
template <class Read>
auto in_file(const Item& item, const Location& location, Read read) {
  try {
    return read();
  } catch (const CorruptError& e) {
    const std::uint64_t inside = e.offset() != CorruptError::kNoOffset ? e.offset() : 0;
    throw CorruptError(
        std::string(location.file) + ", item " + in_quotes(item.fqn) + ": " + e.what(),
        std::string(location.file), location.offset + inside);
  } catch (Error& e) {
    e.add_context(std::string(location.file) + ", item " + in_quotes(item.fqn));
    throw;
  }
}

// Returns the most bytes that a chunk's torch.save file may have when decoded. For a tensor the
// limit follows from its size; for an object it is fixed.
std::uint64_t decoded_limit(const Item& item, const Chunk& chunk) {
  constexpr std::uint64_t kAround = std::uint64_t{1} << 20;  // headers and pickle
  constexpr std::uint64_t kObject = std::uint64_t{1} << 30;
  return kAround + (item.dtype ? box_bytes(chunk.box, *item.dtype) : kObject);
}

OpenChunk checked_chunk(const Item& item, const Chunk& chunk, const Value& value) {
  if (!value.is_tensor()) {
    throw CorruptError("a tensor expected, found " + std::string(value.type_name()));
  }
  const TensorView& tensor = value.as_tensor();
  if (tensor.dtype != *item.dtype || tensor.shape != chunk.box.sizes) {
    throw CorruptError("expected " + std::string(name(*item.dtype)) + " " +
                       describe(chunk.box.sizes) + ", found " + std::string(name(tensor.dtype)) +
                       " " + describe(tensor.shape));
  }
  const std::uint64_t bytes = tensor.storage ? tensor.storage->size() : 0;
  if (bytes < box_bytes(chunk.box, *item.dtype)) {
    throw CorruptError("a tensor of " + describe(tensor.shape) + " in " + std::to_string(bytes) +
                       " bytes");
  }
  const bool is_range = tensor.storage != nullptr && tensor.storage->source() != nullptr;
  return {chunk.box, tensor,
          is_range || tensor.storage == nullptr ? SharedBytes{} : tensor.storage->bytes()};
}

// Makes a contiguous tensor that is a range of `source`.
TensorView tensor_in(const Item& item, const Dims& shape, std::shared_ptr<const ByteSource> source,
                     std::uint64_t offset) {
  TensorView tensor{.dtype = *item.dtype, .shape = shape, .strides = contiguous_strides(shape)};
  tensor.storage = storage_of(std::move(source), offset, byte_size(tensor));
  return tensor;
}

std::shared_ptr<const ByteSource> open_data_file(const OpenFile& open_file, const std::string& file,
                                                 const Item& item) {
  try {
    return open_file(file);
  } catch (const NotFoundError&) {
    throw CorruptError("the checkpoint is not whole: " + file + ", which holds " +
                           in_quotes(item.fqn) + ", is missing",
                       file, 0);
  }
}

}  // namespace

std::shared_ptr<const Folder> Folder::open(Metadata metadata, const OpenFile& open_file,
                                           std::string scratch_folder,
                                           const TensorAccess& tensors) {
  std::shared_ptr<Folder> folder(new Folder(std::move(metadata), std::move(scratch_folder)));
  folder->on_chunk_ = tensors.on_chunk;
  for (Item& item : folder->metadata_.items) {
    try {
      check_layout(item);
    } catch (Error& e) {
      e.add_context(in_quotes(item.fqn));
      throw;
    }
  }
  folder->open_files(open_file, tensors.open_file);
  locate_in_safetensors(folder->metadata_, folder->files_);
  folder->check_locations();
  return folder;
}

Folder::Folder(Metadata metadata, std::string scratch_folder)
    : metadata_(std::move(metadata)), scratch_folder_(std::move(scratch_folder)) {}

void Folder::open_files(const OpenFile& open_file, const OpenFile& open_tensors) {
  // For each file, the first item that uses it.
  std::vector<std::pair<const std::string*, const Item*>> users;
  for (const Item& item : metadata_.items) {
    for (const Chunk& chunk : item.chunks) {
      const auto [known, is_new] = files_.try_emplace(std::string(chunk.location.file));
      if (is_new) users.emplace_back(&known->first, &item);
    }
  }
  // In a remote store each file costs a request, and there are as many files as ranks that wrote.
  constexpr unsigned kAtOnce = 16;
  constexpr std::size_t kWorthThreads = 8;
  std::vector<std::shared_ptr<const ByteSource>> opened(users.size());
  for_each_parallel(
      users.size(),
      [&](std::size_t i) {
        opened[i] = open_data_file(open_file, *users[i].first, *users[i].second);
      },
      users.size() < kWorthThreads ? 0 : ~std::uint64_t{0}, kAtOnce);
  for (std::size_t i = 0; i < users.size(); ++i) {
    const std::string& name = *users[i].first;
    tensor_files_[name] = open_tensors ? open_tensors(name) : opened[i];
    files_[name] = std::move(opened[i]);
  }
  for (const Item& item : metadata_.items) {
    for (const Chunk& chunk : item.chunks) {
      check_end(item, chunk.location);
    }
  }
}

void Folder::check_end(const Item& item, const Location& location) const {
  const std::uint64_t end = location.offset + location.size;
  const std::uint64_t size = file(location.file)->size();
  if (end <= size) return;
  const std::string name(location.file);
  check_no_stand_in(file(location.file), name);
  throw CorruptError(name + " ends too early: " + in_quotes(item.fqn) + " should be in bytes " +
                         std::to_string(location.offset) + " to " + std::to_string(end) +
                         ", but the file has " + std::to_string(size),
                     name, size);
}

// No two chunks may share bytes.
void Folder::check_locations() const {
  std::vector<const Location*> all;
  for (const Item& item : metadata_.items) {
    for (const Chunk& chunk : item.chunks) {
      all.push_back(&chunk.location);
    }
  }
  std::sort(all.begin(), all.end(), [](const Location* a, const Location* b) {
    return std::tie(a->file, a->offset, a->size) < std::tie(b->file, b->offset, b->size);
  });
  for (std::size_t i = 1; i < all.size(); ++i) {
    const Location& before = *all[i - 1];
    const Location& after = *all[i];
    if (before.file != after.file || before.offset + before.size <= after.offset) continue;
    throw CorruptError("the metadata stores two things in " + std::string(after.file) +
                           " at byte " + std::to_string(after.offset),
                       std::string(after.file), after.offset);
  }
}

std::uint64_t Folder::bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& [file, content] : files_) {
    bytes += content->size();
  }
  return bytes;
}

bool Folder::has_plain_tensors() const {
  return std::any_of(metadata_.items.begin(), metadata_.items.end(), [](const Item& item) {
    return std::any_of(item.chunks.begin(), item.chunks.end(),
                       [](const Chunk& chunk) { return chunk.location.is_plain; });
  });
}

void Folder::for_each(std::vector<Piece> pieces,
                      const std::function<void(const Piece&, const ChunkHeads&)>& use) const {
  std::stable_sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
    const Location& one = a.chunk->location;
    const Location& other = b.chunk->location;
    return std::tie(one.file, one.offset) < std::tie(other.file, other.offset);
  });
  ChunkHeads heads;
  for (std::span<const Piece> rest = pieces; !rest.empty();) {
    std::size_t count = 0;
    for (std::uint64_t bytes = 0; count < rest.size() && bytes < kMaxHeadBytes; ++count) {
      constexpr std::uint64_t kToKeepOne = 512;  // memory per chunk: a chunk may be one byte
      bytes += kToKeepOne + ChunkHeads::bytes_for(rest[count]);
    }
    heads.read(rest.first(count), files_);
    for (const Piece& piece : rest.first(count)) {
      use(piece, heads);
    }
    rest = rest.subspan(count);
  }
}

TorchFile Folder::open_chunk_file(const Piece& piece, const ChunkHeads& heads) const {
  const Location& location = piece.chunk->location;
  return in_file(*piece.item, location, [&] {
    auto source = heads.source_of(piece, files_);
    for (const std::string_view transform : location.transforms) {
      if (!transform.starts_with("stream.zstd/")) {
        throw UnsupportedError("it is encoded with " + in_quotes(transform) +
                               ", which cairn does not read; save it without extensions");
      }
      ScratchFile decoded(scratch_folder_);
      decode(kZstd, *source, decoded, decoded_limit(*piece.item, *piece.chunk));
      source = source_of(decoded.map(), source->name());
    }
    if (piece.item->dtype) return TorchFile(source);
    // Tensors in an object are ranges of the data file, not of the bytes that `heads` holds.
    const bool is_encoded = !location.transforms.empty();
    const auto stored =
        is_encoded ? source
                   : part_of(file(location.file), location.offset, location.size, source->name());
    TorchFile object(source, stored);
    if (on_chunk_) on_chunk_(piece, object);
    return object;
  });
}

OpenChunk Folder::open_plain(const Piece& piece) const {
  const Location& location = piece.chunk->location;
  const Box& box = piece.chunk->box;
  if (location.size != box_bytes(box, *piece.item->dtype)) {
    throw CorruptError(std::string(location.file) + ", item " + in_quotes(piece.item->fqn) + ": " +
                           describe(box.sizes) + " in " + std::to_string(location.size) + " bytes",
                       std::string(location.file), location.offset);
  }
  return {box, tensor_in(*piece.item, box.sizes, file(location.file), location.offset), {}};
}

OpenChunk Folder::open_chunk(const Piece& piece, const ChunkHeads& heads) const {
  if (piece.chunk->location.is_plain) return open_plain(piece);
  return open_chunk(piece, open_chunk_file(piece, heads));
}

OpenChunk Folder::open_chunk(const Piece& piece, const TorchFile& torch_file) const {
  const Location& location = piece.chunk->location;
  return in_file(*piece.item, location, [&] {
    if (on_chunk_) on_chunk_(piece, torch_file);
    OpenChunk open = checked_chunk(*piece.item, *piece.chunk, torch_file.read());
    const Storage* storage = open.tensor.storage.get();
    if (location.transforms.empty() && storage != nullptr && storage->source() != nullptr) {
      open.tensor.storage = storage_of(file(location.file),
                                       location.offset + storage->source_offset(), storage->size());
    }
    return open;
  });
}

std::vector<OpenChunk> Folder::open_all(std::vector<Piece> pieces) const {
  std::vector<OpenChunk> chunks;
  chunks.reserve(pieces.size());
  for_each(std::move(pieces), [&](const Piece& piece, const ChunkHeads& heads) {
    chunks.push_back(open_chunk(piece, heads));
  });
  return chunks;
}

std::vector<OpenChunk> Folder::open_all(const Item& item) const {
  std::vector<Piece> pieces;
  pieces.reserve(item.chunks.size());
  for (const Chunk& chunk : item.chunks) {
    pieces.push_back({&item, &chunk});
  }
  return open_all(std::move(pieces));
}

namespace {

// Returns whether read() takes the item's value from one place, which must be opened first.
// Otherwise the tensor is assembled when its bytes are asked for.
bool is_in_one_place(const Item& item) {
  if (!item.dtype) return true;
  return item.chunks.size() == 1 && item.chunks.front().location.transforms.empty() &&
         tensor_bytes(item) > 0;
}

}  // namespace

Value Folder::read() const {
  TreeReader tree(*this);
  std::vector<Piece> pieces;
  for (const Item& item : metadata_.items) {
    if (is_in_one_place(item)) pieces.push_back({&item, item.chunks.data()});
  }
  for_each(std::move(pieces),
           [&](const Piece& piece, const ChunkHeads& heads) { tree.add(piece, heads); });
  return tree.take();
}

TreeReader::TreeReader(const Folder& folder)
    : folder_(folder), memory_(folder.bytes()), values_(folder.metadata().items.size()) {}

bool TreeReader::needs(const Piece& piece) { return is_in_one_place(*piece.item); }

Value& TreeReader::value_of(const Piece& piece) {
  return values_[static_cast<std::size_t>(piece.item - folder_.metadata().items.data())];
}

void TreeReader::add(const Piece& piece, const ChunkHeads& heads) {
  if (piece.item->dtype) return add(piece, folder_.open_chunk(piece, heads));
  add(piece, folder_.open_chunk_file(piece, heads));
}

void TreeReader::add(const Piece& piece, const TorchFile& object) {
  value_of(piece) =
      in_file(*piece.item, piece.chunk->location, [&] { return read_within(object, memory_); });
}

void TreeReader::add(const Piece& piece, const OpenChunk& tensor) {
  value_of(piece) = folder_.tensor_of(*piece.item, tensor.tensor);
}

Value TreeReader::take() {
  const Metadata& metadata = folder_.metadata();
  std::uint64_t budget = std::uint64_t{64} << 20;
  for (const SharedBytes& file : metadata.files) {
    budget += 64 * file.view.size();
  }
  Nesting tree(budget);
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const Item& item = metadata.items[i];
    tree.set(item, is_in_one_place(item) ? std::move(values_[i]) : Value(folder_.tensor_of(item)));
  }
  return tree.take();
}

class Folder::ChunksStorage final : public PiecesStorage {
 public:
  ChunksStorage(std::shared_ptr<const Folder> folder, const Item& item)
      : PiecesStorage(tensor_bytes(item), "cpu"), folder_(std::move(folder)), item_(item) {}

  const void* owner() const override { return folder_.get(); }
  std::vector<std::shared_ptr<const Storage>> cut(std::span<const Cut> cuts) const override {
    std::vector<ItemBox> boxes;
    boxes.reserve(cuts.size());
    for (const Cut& cut : cuts) {
      boxes.push_back({&static_cast<const ChunksStorage*>(cut.storage)->item_,
                       {.offsets = cut.offsets, .sizes = cut.sizes}});
    }
    return folder_->open_boxes(boxes);
  }

  bool add_ranges(std::span<std::byte> into, std::vector<SourceRange>& ranges) const override {
    const Box all{.offsets = Dims(item_.size.size(), 0), .sizes = item_.size};
    const bool is_decoded =
        std::any_of(item_.chunks.begin(), item_.chunks.end(),
                    [](const Chunk& chunk) { return !chunk.location.transforms.empty(); });
    if (is_decoded) return false;  // ranges of the decoded bytes would outlive these bytes
    return dcp::add_ranges(folder_->open_all(item_), all, into, ranges);
  }

 protected:
  void read(std::uint64_t offset, std::span<std::byte> into) const override {
    folder_->read_elements(item_, offset, into);
  }
  SharedBytes load() const override {
    return size() <= kMaxBytesInMemory ? Storage::load() : folder_->assemble(item_);
  }

 private:
  std::shared_ptr<const Folder> folder_;
  const Item& item_;  // owned by the folder
};

// A box of a tensor in several chunks, which are already open.
class Folder::BoxStorage final : public AssembledStorage {
 public:
  BoxStorage(std::shared_ptr<const Folder> folder, const ItemBox& box,
             std::vector<OpenChunk> chunks)
      : AssembledStorage(box_bytes(box.box, *box.item->dtype), "cpu"),
        folder_(std::move(folder)),
        item_(*box.item),
        box_(box.box),
        chunks_(std::move(chunks)) {}

  bool add_ranges(std::span<std::byte> into, std::vector<SourceRange>& ranges) const override {
    return dcp::add_ranges(chunks_, box_, into, ranges);
  }

 protected:
  void read(std::uint64_t offset, std::span<std::byte> into) const override {
    copy_elements(chunks_, {*item_.dtype, box_}, offset, into);
  }

 private:
  std::shared_ptr<const Folder> folder_;
  const Item& item_;  // owned by the folder
  Box box_;
  std::vector<OpenChunk> chunks_;  // those that overlap the box
};

std::vector<std::shared_ptr<const Storage>> Folder::open_boxes(
    std::span<const ItemBox> boxes) const {
  std::unordered_map<const Chunk*, std::vector<std::size_t>> wanted_by;
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    const auto& [item, box] = boxes[i];
    for (const Chunk& chunk : item->chunks) {
      if (!overlap(chunk.box, box)) continue;
      std::vector<std::size_t>& users = wanted_by[&chunk];
      if (users.empty()) pieces.push_back({item, &chunk});
      users.push_back(i);
    }
  }
  std::vector<std::vector<OpenChunk>> chunks(boxes.size());
  for_each(std::move(pieces), [&](const Piece& piece, const ChunkHeads& heads) {
    const OpenChunk chunk = open_chunk(piece, heads);
    for (const std::size_t user : wanted_by[piece.chunk]) {
      chunks[user].push_back(chunk);
    }
  });
  std::vector<std::shared_ptr<const Storage>> storages;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    storages.push_back(
        std::make_shared<const BoxStorage>(shared_from_this(), boxes[i], std::move(chunks[i])));
  }
  return storages;
}

TensorView Folder::tensor_of(const Item& item) const {
  if (tensor_bytes(item) == 0) return make_tensor(*item.dtype, item.size, {});
  return {.dtype = *item.dtype,
          .shape = item.size,
          .strides = contiguous_strides(item.size),
          .storage = std::make_shared<const ChunksStorage>(shared_from_this(), item)};
}

// Makes a tensor that is a range of the file, if the elements lie in order in the file.
TensorView Folder::tensor_of(const Item& item, const TensorView& in_one_place) const {
  const Storage& storage = *in_one_place.storage;
  if (!in_one_place.is_contiguous() || storage.source() == nullptr) return tensor_of(item);
  check_bounds(in_one_place);
  const std::uint64_t first =
      static_cast<std::uint64_t>(in_one_place.storage_offset) * item_size(*item.dtype);
  return tensor_in(item, item.size, file(item.chunks.front().location.file),
                   storage.source_offset() + first);
}

SharedBytes Folder::assemble(const Item& item) const {
  const std::vector<OpenChunk> chunks = open_all(item);
  return spill(tensor_bytes(item), scratch_folder_, [&](ByteSink& sink) {
    std::vector<std::byte> buffer(kWindowBytes);
    const auto most = static_cast<std::int64_t>(kWindowBytes / item_size(*item.dtype));
    for_each_window(item.size, most, [&](const Box& window) {
      const auto out = std::span(buffer).first(box_bytes(window, *item.dtype));
      copy_overlaps(chunks, window, out);
      sink.write(out);
    });
  });
}

void Folder::read_elements(const Item& item, std::uint64_t offset,
                           std::span<std::byte> into) const {
  const std::size_t element = item_size(*item.dtype);
  fill_from_elements(element, offset, into, [&](std::uint64_t first, std::span<std::byte> out) {
    std::vector<Box> boxes;
    for_each_box(item.size, first, out.size() / element,
                 [&](const Dims& offsets, const Dims& sizes) {
                   boxes.push_back({offsets, sizes});
                 });
    read_boxes(item, boxes, out);
  });
}

// Reads the elements of the boxes, one box after another.
void Folder::read_boxes(const Item& item, std::span<const Box> boxes,
                        std::span<std::byte> out) const {
  std::vector<Piece> pieces;
  for (const Chunk& chunk : item.chunks) {
    const bool is_wanted = std::any_of(boxes.begin(), boxes.end(), [&](const Box& box) {
      return intersect(chunk.box, box).has_value();
    });
    if (is_wanted) pieces.push_back({&item, &chunk});
  }
  const std::vector<OpenChunk> chunks = open_all(std::move(pieces));
  for (const Box& box : boxes) {
    const std::uint64_t bytes = box_bytes(box, *item.dtype);
    copy_overlaps(chunks, box, out.first(bytes));
    out = out.subspan(bytes);
  }
}

void Folder::read_box(const Item& item, const Box& box, std::span<std::byte> out) const {
  try {
    check_inside(box, item.size);
  } catch (const CorruptError& e) {
    throw UsageError(in_quotes(item.fqn) + ": " + e.what());  // the caller's box, not a file's
  }
  if (out.size() != box_bytes(box, *item.dtype)) {
    throw UsageError(in_quotes(item.fqn) + ": the box has " +
                     std::to_string(box_bytes(box, *item.dtype)) + " bytes, but the buffer has " +
                     std::to_string(out.size()));
  }
  read_boxes(item, {&box, 1}, out);
}

}  // namespace cairn::dcp
