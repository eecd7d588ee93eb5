#include "format/dcp/chunk_heads.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "format/dcp/metadata/layout.h"
#include "io/bytes/source_part.h"
#include "io/threads/parallel.h"

namespace cairn::dcp {
namespace {

// PyTorch's and cairn's files of one tensor have 700 to 1,100 bytes on either side of the elements.
constexpr std::uint64_t kAroundBytes = 2048;
// An object is a pickle. A small one is read whole; a larger one is read like any file.
constexpr std::uint64_t kMaxObjectBytes = std::uint64_t{64} << 10;

bool is_read_ahead(const Piece& piece) {
  const Location& location = piece.chunk->location;
  const bool is_large_object = !piece.item->dtype && location.size > kMaxObjectBytes;
  return !location.is_plain && location.transforms.empty() && !is_large_object;
}

// Returns the ranges to read, as offsets in the chunk.
std::vector<Windows::Extent> extents_of(const Piece& piece) {
  const std::uint64_t size = piece.chunk->location.size;
  if (!piece.item->dtype || size <= 2 * kAroundBytes) return {{0, size}};
  return {{0, kAroundBytes}, {size - kAroundBytes, kAroundBytes}};
}

std::shared_ptr<Windows> bytes_of_chunk(const Piece& piece, const FilesByName& files) {
  const Location& location = piece.chunk->location;
  return std::make_shared<Windows>(part_of(files.find(location.file)->second, location.offset,
                                           location.size, "its torch.save file"));
}

}  // namespace

std::uint64_t ChunkHeads::bytes_for(const Piece& piece) {
  if (!is_read_ahead(piece)) return 0;
  std::uint64_t bytes = 0;
  for (const Windows::Extent& extent : extents_of(piece)) {
    bytes += extent.size;
  }
  return bytes;
}

void ChunkHeads::read(std::span<const Piece> pieces, const FilesByName& files) {
  chunks_.clear();
  std::map<std::string_view, std::vector<ByteSource::Range>> ranges;
  for (const Piece& piece : pieces) {
    if (!is_read_ahead(piece)) continue;
    const Location& location = piece.chunk->location;
    const auto chunk = bytes_of_chunk(piece, files);
    chunks_.emplace(piece.chunk, chunk);
    if (chunk->in_memory()) continue;
    for (const Windows::Extent& extent : extents_of(piece)) {
      const auto buffer = std::make_shared<std::vector<std::byte>>(extent.size);
      ranges[location.file].push_back({location.offset + extent.offset, *buffer});
      chunk->add(extent.offset, {ByteView(*buffer), buffer});
    }
  }
  using FilesRanges = std::pair<const ByteSource*, const std::vector<ByteSource::Range>*>;
  std::vector<FilesRanges> reads;
  std::uint64_t bytes = 0;
  for (const auto& [file, wanted] : ranges) {
    reads.emplace_back(files.find(file)->second.get(), &wanted);
    bytes += wanted.size() * kAroundBytes;
  }
  // Each file in a store costs a request, whose time is spent waiting.
  constexpr unsigned kAtOnce = 16;
  constexpr std::size_t kWorthThreads = 8;
  for_each_parallel(
      reads.size(), [&](std::size_t i) { reads[i].first->read(*reads[i].second); },
      reads.size() < kWorthThreads ? bytes : ~std::uint64_t{0}, kAtOnce);
}

std::shared_ptr<const ByteSource> ChunkHeads::source_of(const Piece& piece,
                                                        const FilesByName& files) const {
  const auto known = chunks_.find(piece.chunk);
  if (known != chunks_.end()) return known->second;
  auto chunk = bytes_of_chunk(piece, files);
  if (is_read_ahead(piece)) chunk->fetch(extents_of(piece));
  return chunk;
}

}  // namespace cairn::dcp
