#include "checkpoint/open/check_records.h"

#include <libdeflate.h>
#include <zlib.h>

#include <algorithm>

#include "io/parallel.h"
#include "io/pieces.h"

namespace cairn {
namespace {

// What one core reads and looks at before it leaves its cache.
constexpr std::uint64_t kBatchBytes = std::uint64_t{1} << 20;

struct Piece {
  std::size_t record = 0;
  std::uint64_t offset = 0;  // in the file
  std::uint64_t size = 0;
  std::span<std::byte> place = {};  // empty: nobody wants the bytes
  std::uint32_t crc32 = 0;
};

std::vector<Piece> cut(const std::vector<FileRecord>& records,
                       std::span<const std::span<std::byte>> places) {
  std::vector<Piece> pieces;
  pieces.reserve(records.size());
  for (std::size_t i = 0; i < records.size(); ++i) {
    for (std::uint64_t done = 0; done < records[i].size;) {
      const std::uint64_t size = std::min(kBatchBytes, records[i].size - done);
      Piece piece{.record = i, .offset = records[i].offset + done, .size = size};
      if (!places.empty() && !places[i].empty()) piece.place = places[i].subspan(done, size);
      pieces.push_back(piece);
      done += size;
    }
  }
  return pieces;
}

// Pieces that stand together in `pieces`, as many as fit a batch.
std::vector<std::span<Piece>> batches_of(std::vector<Piece>& pieces) {
  std::vector<std::span<Piece>> batches;
  for (std::size_t begin = 0; begin < pieces.size();) {
    std::size_t end = begin;
    for (std::uint64_t bytes = 0; end < pieces.size(); ++end) {
      bytes += pieces[end].size;
      if (end > begin && bytes > kBatchBytes) break;
    }
    batches.push_back(std::span(pieces).subspan(begin, end - begin));
    begin = end;
  }
  return batches;
}

std::uint32_t crc_of(ByteView bytes) { return libdeflate_crc32(0, bytes.data(), bytes.size()); }

void check_in_memory(const ByteSource& file, std::span<Piece> batch) {
  for (Piece& piece : batch) {
    const SharedBytes bytes = file.view(piece.offset, piece.size);
    ByteView found = bytes.view;
    if (!piece.place.empty()) {
      std::copy(found.begin(), found.end(), piece.place.begin());
      found = piece.place;
    }
    piece.crc32 = crc_of(found);
    bytes.release(bytes.view);
  }
}

void read_and_check(const ByteSource& file, std::span<Piece> batch) {
  thread_local std::vector<std::byte> scratch(kBatchBytes);
  thread_local std::vector<ByteSource::Range> ranges;
  ranges.clear();
  std::size_t used = 0;
  for (const Piece& piece : batch) {
    std::span<std::byte> into = piece.place;
    if (into.empty()) into = std::span(scratch).subspan(used, piece.size);
    if (piece.place.empty()) used += piece.size;
    ranges.push_back({piece.offset, into});
  }
  file.read(ranges);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    batch[i].crc32 = crc_of(ranges[i].into);
  }
}

}  // namespace

std::vector<std::uint32_t> record_crcs(const ByteSource& file,
                                       const std::vector<FileRecord>& records,
                                       const std::function<void(std::uint64_t)>& on_progress,
                                       std::span<const std::span<std::byte>> places) {
  std::vector<Piece> pieces = cut(records, places);
  const std::vector<std::span<Piece>> batches = batches_of(pieces);
  const auto check = [&](std::size_t i) {
    file.in_memory() ? check_in_memory(file, batches[i]) : read_and_check(file, batches[i]);
    if (!on_progress) return;
    for (const Piece& piece : batches[i]) {
      on_progress(piece.size);
    }
  };
  for_each_parallel(batches.size(), check, file.size());
  std::vector<std::uint32_t> crcs(records.size(), 0);
  for (const Piece& piece : pieces) {
    std::uint32_t& crc = crcs[piece.record];
    const bool is_whole = piece.size == records[piece.record].size;
    crc = is_whole ? piece.crc32
                   : static_cast<std::uint32_t>(
                         crc32_combine(crc, piece.crc32, static_cast<z_off_t>(piece.size)));
  }
  return crcs;
}

}  // namespace cairn
