// What stands around a tensor's elements in the torch.save file that a chunk is stored in, of many
// chunks with one read: some hundred bytes before them, and as many behind.
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

// A chunk, and what it is a part of.
struct Piece {
  const Item* item = nullptr;
  const Chunk* chunk = nullptr;
};

// Not thread-safe while read() runs.
class ChunkHeads {
 public:
  // What reading ahead for a chunk takes; 0 where nothing is: it is plain, or encoded.
  static std::uint64_t bytes_for(const Piece& piece);

  // Forgets the others, and reads what opening these takes, of each file with one call, of several
  // files at once where they are many.
  // StorageError.
  void read(std::span<const Piece> pieces, const FilesByName& files);

  // The bytes of the chunk, of which those are there that were read. Reads them, when read() was
  // not told of it.
  std::shared_ptr<const ByteSource> source_of(const Piece& piece, const FilesByName& files) const;

 private:
  std::unordered_map<const Chunk*, std::shared_ptr<Windows>> chunks_;
};

}  // namespace cairn::dcp
