#include "format/dcp/folder.h"

#include <algorithm>
#include <tuple>

#include "cairn/error.h"

#include "core/checked.h"
#include "format/compression/codec.h"
#include "format/dcp/layout.h"
#include "format/dcp/nesting.h"
#include "format/dcp/safetensors_chunks.h"
#include "format/read_within.h"
#include "io/scratch_file.h"

namespace cairn::dcp {
namespace {

// A tensor in several chunks is put together in memory up to here.
constexpr std::uint64_t kSmallBytes = std::uint64_t{32} << 20;
// Beyond, it goes to the scratch file in pieces of this.
constexpr std::uint64_t kWindowBytes = std::uint64_t{8} << 20;

// Runs `read` on a part of a data file; errors then count their offsets from the file's start.
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

// Of a decoded torch.save file: what it is for is known of a tensor, not of an object.
std::uint64_t decoded_limit(const Item& item, const Chunk& chunk) {
  constexpr std::uint64_t kAround = std::uint64_t{1} << 20;  // headers, and the pickle
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
  OpenChunk open{chunk.box, tensor, tensor.storage ? tensor.storage->bytes() : SharedBytes{}};
  if (open.bytes.view.size() < box_bytes(chunk.box, *item.dtype)) {
    throw CorruptError("a tensor of " + describe(tensor.shape) + " in " +
                       std::to_string(open.bytes.view.size()) + " bytes");
  }
  return open;
}

SharedBytes open_data_file(const OpenFile& open_file, const std::string& file, const Item& item) {
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
                                           std::string scratch_folder) {
  std::shared_ptr<Folder> folder(new Folder(std::move(metadata), std::move(scratch_folder)));
  for (Item& item : folder->metadata_.items) {
    try {
      check_layout(item);
    } catch (Error& e) {
      e.add_context(in_quotes(item.fqn));
      throw;
    }
  }
  folder->open_files(open_file);
  locate_in_safetensors(folder->metadata_,
                        [&](std::string_view name) { return folder->file(name); });
  folder->check_locations();
  return folder;
}

Folder::Folder(Metadata metadata, std::string scratch_folder)
    : metadata_(std::move(metadata)), scratch_folder_(std::move(scratch_folder)) {}

void Folder::open_files(const OpenFile& open_file) {
  for (const Item& item : metadata_.items) {
    for (const Chunk& chunk : item.chunks) {
      const Location& location = chunk.location;
      const auto [known, is_new] = files_.try_emplace(std::string(location.file));
      if (is_new) known->second = open_data_file(open_file, known->first, item);
      const std::string& file = known->first;
      const std::uint64_t end = location.offset + location.size;
      const std::uint64_t size = known->second.view.size();
      if (end <= size) continue;
      throw CorruptError(file + " ends too early: " + in_quotes(item.fqn) + " should be in bytes " +
                             std::to_string(location.offset) + " to " + std::to_string(end) +
                             ", but the file has " + std::to_string(size),
                         file, size);
    }
  }
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
    bytes += content.view.size();
  }
  return bytes;
}

bool Folder::has_plain_tensors() const {
  return std::any_of(metadata_.items.begin(), metadata_.items.end(), [](const Item& item) {
    return std::any_of(item.chunks.begin(), item.chunks.end(),
                       [](const Chunk& chunk) { return chunk.location.is_plain; });
  });
}

TorchFile Folder::open_chunk_file(const Item& item, const Chunk& chunk) const {
  const Location& location = chunk.location;
  return in_file(item, location, [&] {
    SharedBytes bytes = file(location.file).part(location.offset, location.size);
    for (const std::string_view transform : location.transforms) {
      if (!transform.starts_with("stream.zstd/")) {
        throw UnsupportedError("it is encoded with " + in_quotes(transform) +
                               ", which cairn does not read; save it without extensions");
      }
      ScratchFile decoded(scratch_folder_);
      decode(kZstd, bytes, decoded, decoded_limit(item, chunk));
      bytes = decoded.map();
    }
    return TorchFile(std::move(bytes), "its torch.save file");
  });
}

OpenChunk Folder::open_chunk(const Item& item, const Chunk& chunk) const {
  if (chunk.location.is_plain) {
    const Location& location = chunk.location;
    const SharedBytes bytes = file(location.file).part(location.offset, location.size);
    if (location.size != box_bytes(chunk.box, *item.dtype)) {
      throw CorruptError(std::string(location.file) + ", item " + in_quotes(item.fqn) + ": " +
                             describe(chunk.box.sizes) + " in " + std::to_string(location.size) +
                             " bytes",
                         std::string(location.file), location.offset);
    }
    return {chunk.box, make_tensor(*item.dtype, chunk.box.sizes, bytes), bytes};
  }
  const TorchFile file = open_chunk_file(item, chunk);
  return in_file(item, chunk.location, [&] { return checked_chunk(item, chunk, file.read()); });
}

Value Folder::read() const {
  std::uint64_t budget = std::uint64_t{64} << 20;
  for (const SharedBytes& file : metadata_.files) {
    budget += 64 * file.view.size();
  }
  Nesting tree(budget);
  MemoryBudget memory(bytes());  // one for all: the folder may have as many files as it has bytes
  for (const Item& item : metadata_.items) {
    tree.set(item, value_of(item, memory));
  }
  return tree.take();
}

Value Folder::value_of(const Item& item, MemoryBudget& memory) const {
  if (item.dtype) return tensor_of(item);
  const Chunk& chunk = item.chunks.front();
  const TorchFile file = open_chunk_file(item, chunk);
  return in_file(item, chunk.location, [&] { return read_within(file, memory); });
}

TensorView Folder::tensor_of(const Item& item) const {
  const std::uint64_t bytes = tensor_bytes(item);
  if (bytes == 0) return make_tensor(*item.dtype, item.size, {});
  if (item.chunks.size() == 1 && item.chunks.front().location.transforms.empty()) {
    const OpenChunk chunk = open_chunk(item, item.chunks.front());
    if (chunk.tensor.is_contiguous()) {
      return make_tensor(*item.dtype, item.size, chunk.tensor.contiguous_bytes());
    }
  }
  return {.dtype = *item.dtype,
          .shape = item.size,
          .strides = contiguous_strides(item.size),
          .storage = std::make_shared<const Storage>(
              bytes, [folder = shared_from_this(), &item] { return folder->assemble(item); })};
}

SharedBytes Folder::assemble(const Item& item) const {
  std::vector<OpenChunk> chunks;
  chunks.reserve(item.chunks.size());
  for (const Chunk& chunk : item.chunks) {
    chunks.push_back(open_chunk(item, chunk));
  }
  const std::uint64_t bytes = tensor_bytes(item);
  const std::uint64_t element = item_size(*item.dtype);
  const std::uint64_t window_bytes = bytes <= kSmallBytes ? bytes : kWindowBytes;
  const auto buffer = std::make_shared<std::vector<std::byte>>(window_bytes);
  const auto fill = [&](const Box& window) {
    const std::span<std::byte> out(buffer->data(), box_bytes(window, *item.dtype));
    for (const OpenChunk& chunk : chunks) {
      copy_overlap(chunk, window, out);
    }
    return out;
  };
  if (bytes <= kSmallBytes) {
    fill({.offsets = Dims(item.size.size(), 0), .sizes = item.size});
    return {ByteView(*buffer), buffer};
  }
  ScratchFile scratch(scratch_folder_);
  for_each_window(item.size, static_cast<std::int64_t>(window_bytes / element),
                  [&](const Box& window) { scratch.write(fill(window)); });
  return scratch.map();
}

void Folder::read_box(const Item& item, const Box& box, std::span<std::byte> out) const {
  try {
    check_inside(box, item.size);
  } catch (const CorruptError& e) {
    throw UsageError(in_quotes(item.fqn) + ": " + e.what());  // the caller's box, no file's
  }
  if (out.size() != box_bytes(box, *item.dtype)) {
    throw UsageError(in_quotes(item.fqn) + ": a box of " +
                     std::to_string(box_bytes(box, *item.dtype)) + " bytes, room for " +
                     std::to_string(out.size()));
  }
  for (const Chunk& chunk : item.chunks) {
    if (intersect(chunk.box, box)) copy_overlap(open_chunk(item, chunk), box, out);
  }
}

}  // namespace cairn::dcp
