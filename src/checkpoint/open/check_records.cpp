#include "checkpoint/open/check_records.h"

#include <libdeflate.h>
#include <zlib.h>

#include <algorithm>

#include "io/parallel.h"
#include "io/pieces.h"

namespace cairn {
namespace {

constexpr std::uint64_t kCrcPieceBytes = std::uint64_t{4} << 20;

struct Piece {
  std::size_t record = 0;
  std::uint64_t offset = 0;  // in the file
  std::uint64_t size = 0;
  std::uint32_t crc32 = 0;
};

std::vector<Piece> cut(const std::vector<FileRecord>& records) {
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < records.size(); ++i) {
    for (std::uint64_t done = 0; done < records[i].size; done += kCrcPieceBytes) {
      pieces.push_back({.record = i,
                        .offset = records[i].offset + done,
                        .size = std::min(kCrcPieceBytes, records[i].size - done)});
    }
  }
  return pieces;
}

}  // namespace

std::vector<std::uint32_t> record_crcs(const ByteSource& file,
                                       const std::vector<FileRecord>& records,
                                       const std::function<void(std::uint64_t)>& on_progress) {
  std::vector<Piece> pieces = cut(records);
  const auto check = [&](std::size_t i) {
    Piece& piece = pieces[i];
    for_each_piece(file, piece.offset, piece.size, [&](ByteView bytes) {
      piece.crc32 = libdeflate_crc32(piece.crc32, bytes.data(), bytes.size());
    });
    if (on_progress) on_progress(piece.size);
  };
  for_each_parallel(pieces.size(), check, file.size());
  std::vector<std::uint32_t> crcs(records.size(), 0);
  for (const Piece& piece : pieces) {
    std::uint32_t& crc = crcs[piece.record];
    crc = static_cast<std::uint32_t>(
        crc32_combine(crc, piece.crc32, static_cast<z_off_t>(piece.size)));
  }
  return crcs;
}

}  // namespace cairn
