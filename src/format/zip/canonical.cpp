#include "format/zip/canonical.h"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "format/zip/small_parts.h"
#include "io/threads/parallel.h"

namespace cairn::zip {
namespace {

// Consecutive entries of the file, and where their records, or their lines in the directory, are.
struct Piece {
  std::span<const Entry> entries = {};
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  bool is_of_directory = false;  // true: their lines in the directory; false: the records
  std::string tail = {};         // the bytes between the last entry and `end`
};

// Cuts the file into pieces of some thousand entries: first all records, then all lines of the
// directory.
std::vector<Piece> pieces_of(const Directory& directory, std::uint64_t file_size) {
  constexpr std::size_t kEntries = std::size_t{16} << 10;
  std::vector<Piece> pieces;
  for (const bool is_of_directory : {false, true}) {
    for (std::span<const Entry> rest = directory.entries; !rest.empty();) {
      const auto some = rest.first(std::min(kEntries, rest.size()));
      pieces.push_back({.entries = some, .is_of_directory = is_of_directory});
      rest = rest.subspan(some.size());
    }
  }
  std::uint64_t at = directory.extent.offset;
  for (Piece& piece : pieces) {
    piece.begin = piece.is_of_directory ? at : piece.entries.front().header_offset;
    if (!piece.is_of_directory) continue;
    for (const Entry& entry : piece.entries) {
      at += central_header_size(directory.name_size(entry), entry.placed());
    }
  }
  for (std::size_t i = 0; i + 1 < pieces.size(); ++i) {
    pieces[i].end = pieces[i + 1].begin;
  }
  pieces.front().begin = 0;  // wherever the directory says that the first record begins
  pieces.back().end = file_size;
  pieces.back().tail = end_of_directory({.offset = directory.extent.offset,
                                         .size = at - directory.extent.offset,
                                         .entries = directory.entries.size()});
  return pieces;
}

// Returns whether the piece is as PyTorch would write it.
bool is_same(Comparison& file, const Piece& piece, const std::string& prefix) {
  std::string name = prefix + "/";
  const std::size_t stem = name.size();
  for (const Entry& entry : piece.entries) {
    name.resize(stem);
    name += entry.record.name;
    if (piece.is_of_directory) {
      const bool is_line = file.expect([&](std::string& out) {
        append_central_header(out, name, entry.placed(), entry.record.crc32);
      });
      if (!is_line) return false;
      continue;
    }
    const std::uint64_t at = file.at();
    const bool is_header = file.expect(
        [&](std::string& out) { append_local_header(out, name, at, entry.record.size); });
    if (!is_header) return false;
    if (file.at() != entry.record.offset) {
      file.finish(piece.end);  // finds the first difference, which may be before this
      return false;
    }
    file.skip(entry.record.size);
    const bool is_descriptor = file.expect(
        [&](std::string& out) { append_data_descriptor(out, entry.placed(), entry.record.crc32); });
    if (!is_descriptor) return false;
  }
  return file.expect([&](std::string& out) { out += piece.tail; }) && file.finish(piece.end);
}

}  // namespace

bool is_canonical(const Directory& directory, const ByteSource& source, std::uint64_t* offset) {
  constexpr std::uint64_t kNone = ~std::uint64_t{0};
  const std::vector<Piece> pieces = pieces_of(directory, source.size());
  std::vector<std::uint64_t> differences(pieces.size(), kNone);
  const auto compare = [&](std::size_t i) {
    Comparison file(source, pieces[i].begin);
    if (!is_same(file, pieces[i], directory.prefix)) differences[i] = file.difference();
  };
  const bool are_few = pieces.size() <= 2;
  for_each_parallel(pieces.size(), compare, are_few ? 0 : source.size());
  const std::uint64_t difference = *std::ranges::min_element(differences);
  *offset = std::min(difference, source.size());
  return difference == kNone;
}

}  // namespace cairn::zip
