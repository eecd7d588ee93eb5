#include "io/file_source.h"

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <mutex>
#include <optional>
#include <vector>

#include "io/file_direct.h"
#include "io/file_error.h"
#include "io/file_handle.h"
#include "io/mapped_file.h"
#include "io/parallel.h"
#include "io/read_fault.h"

namespace cairn {
namespace {

using Range = ByteSource::Range;

constexpr std::size_t kPieceBytes = DirectReads::kMostBytes;
// Less than these go through the page cache: of one call, and of one of its pieces.
constexpr std::uint64_t kLeastDirectBytes = std::uint64_t{32} << 20;
constexpr std::uint64_t kLeastDirectPiece = std::uint64_t{1} << 20;
constexpr unsigned kDiskThreads = 4;                     // they wait most of the time
constexpr std::size_t kGapBytes = std::size_t{4} << 10;  // reading so much costs less than a call

// Bytes between two ranges; nobody looks at them, so threads may share the place.
std::span<std::byte> unwanted() {
  thread_local std::array<std::byte, kGapBytes> place;
  return place;
}

// Ranges that one call reads: in order, with small gaps.
struct Piece {
  std::uint64_t offset = 0;
  std::uint64_t end = 0;
  std::vector<Range> ranges = {};
};

std::vector<Range> in_order(std::span<const Range> ranges) {
  std::vector<Range> sorted;
  sorted.reserve(ranges.size());
  for (Range range : ranges) {
    while (range.into.size() > kPieceBytes) {
      sorted.push_back({range.offset, range.into.first(kPieceBytes)});
      range = {range.offset + kPieceBytes, range.into.subspan(kPieceBytes)};
    }
    if (!range.into.empty()) sorted.push_back(range);
  }
  std::sort(sorted.begin(), sorted.end(),
            [](const Range& a, const Range& b) { return a.offset < b.offset; });
  return sorted;
}

std::vector<Piece> pieces_of(std::span<const Range> ranges) {
  constexpr std::size_t kMostRanges = IOV_MAX / 2;  // each with the gap before it
  std::vector<Piece> pieces;
  for (const Range& range : in_order(ranges)) {
    const std::uint64_t end = range.offset + range.into.size();
    const bool joins = !pieces.empty() && range.offset >= pieces.back().end &&
                       range.offset - pieces.back().end <= kGapBytes &&
                       end - pieces.back().offset <= kPieceBytes &&
                       pieces.back().ranges.size() < kMostRanges;
    if (!joins) pieces.push_back({.offset = range.offset});
    pieces.back().ranges.push_back(range);
    pieces.back().end = end;
  }
  return pieces;
}

std::vector<iovec> places_of(const Piece& piece) {
  std::vector<iovec> places;
  std::uint64_t at = piece.offset;
  for (const Range& range : piece.ranges) {
    if (range.offset > at) places.push_back({unwanted().data(), range.offset - at});
    places.push_back({range.into.data(), range.into.size()});
    at = range.offset + range.into.size();
  }
  return places;
}

// Drops the first `bytes`.
std::span<iovec> behind(std::span<iovec> places, std::size_t bytes) {
  while (!places.empty() && bytes >= places.front().iov_len) {
    bytes -= places.front().iov_len;
    places = places.subspan(1);
  }
  if (!places.empty()) {
    places.front().iov_base = static_cast<std::byte*>(places.front().iov_base) + bytes;
    places.front().iov_len -= bytes;
  }
  return places;
}

class FileSource final : public ByteSource {
 public:
  FileSource(FileDescriptor fd, const std::string& path) : file_(std::move(fd), path) {}

  std::uint64_t size() const override { return file_.size(); }
  const std::string& name() const override { return file_.path(); }

  void read(std::span<const Range> ranges) const override {
    std::uint64_t bytes = 0;
    for (const Range& range : ranges) {
      check_range(range.offset, range.into.size());
      bytes += range.into.size();
    }
    const std::vector<Piece> pieces = pieces_of(ranges);
    const auto fd = file_.get();
    std::optional<DirectReads> direct;
    if (bytes >= kLeastDirectBytes) direct.emplace(*fd, size());
    const auto read_one = [&](std::size_t i) {
      const Piece& piece = pieces[i];
      const bool is_large = direct && piece.end - piece.offset >= kLeastDirectPiece;
      if (is_large && direct->read(piece.offset, piece.end, piece.ranges)) return;
      read_piece(*fd, piece);
    };
    for_each_parallel(pieces.size(), read_one, bytes, kDiskThreads);
    file_.check_unchanged(*fd);
  }

  SharedBytes view(std::uint64_t offset, std::uint64_t bytes) const override {
    check_range(offset, bytes);
    if (size() == 0) return {};
    std::call_once(mapped_, [this] { map_ = map_descriptor(file_.get()->get(), size(), name()); });
    return map_.part(offset, bytes);
  }

 private:
  void read_piece(const FileDescriptor& fd, const Piece& piece) const {
    std::vector<iovec> all = places_of(piece);
    std::span<iovec> places = all;
    std::uint64_t at = piece.offset;
    while (!places.empty()) {
      const ssize_t count =
          preadv(fd.get(), places.data(), static_cast<int>(places.size()), static_cast<off_t>(at));
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) refuse(at, count < 0 ? errno : 0);
      at += static_cast<std::uint64_t>(count);
      places = behind(places, static_cast<std::size_t>(count));
    }
  }

  [[noreturn]] void refuse(std::uint64_t at, int error) const {
    const std::string what = "cannot read " + name() + " at byte " + std::to_string(at);
    if (error == 0) throw UnreadableError(what + ": it was cut off since it was opened", EIO);
    if (error == EIO || error == ESTALE) {
      throw UnreadableError(
          what + ": the disk, or the server, does not give these bytes; check the kernel log",
          error);
    }
    throw_storage_error(error, what);
  }

  FileHandle file_;
  mutable std::once_flag mapped_;
  mutable SharedBytes map_;
};

}  // namespace

std::shared_ptr<const ByteSource> make_file_source(FileDescriptor fd, const std::string& path) {
  return std::make_shared<const FileSource>(std::move(fd), path);
}

}  // namespace cairn
