// Reads the heads and tails of many chunks with one read. A chunk is stored as a torch.save file,
// in which some hundred bytes precede and follow the tensor's elements.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>

#include "format/dcp/metadata/metadata.h"
#include "io/bytes/windows.h"

namespace cairn::dcp {

using FilesByName = std::map<std::string, std::shared_ptr<const ByteSource>, std::less<>>;

// A chunk, and the item that it is a part of.
struct Piece {
  const Item* item = nullptr;
  const Chunk* chunk = nullptr;
};

// Not thread-safe while read() runs.
class ChunkHeads {
 public:
  // Returns how many bytes are read ahead for a chunk; 0 if none are, because the chunk is plain or
  // encoded, or a large object.
  static std::uint64_t bytes_for(const Piece& piece);

  // Forgets the chunks of earlier calls, and reads the bytes that are needed to open `pieces`. Each
  // file is read with one call, many files in parallel. Throws StorageError if reading fails.
  void read(std::span<const Piece> pieces, const FilesByName& files);

  // Returns a source of the bytes of the chunk, in which the bytes that read() got are in memory.
  // If read() did not get this piece, reads its head and tail now.
  std::shared_ptr<const ByteSource> source_of(const Piece& piece, const FilesByName& files) const;

 private:
  std::unordered_map<const Chunk*, std::shared_ptr<Windows>> chunks_;
};

}  // namespace cairn::dcp
