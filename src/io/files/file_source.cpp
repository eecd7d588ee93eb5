#include "io/files/file_source.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <exception>
#include <mutex>
#include <optional>
#include <vector>

#include "cairn/error.h"

#include "core/per_thread.h"
#include "io/file_error.h"
#include "io/files/file_direct.h"
#include "io/files/file_handle.h"
#include "io/memory/mapped_file.h"
#include "io/threads/parallel.h"

namespace cairn {
namespace {

using Look = ByteSource::Look;

constexpr std::uint64_t kFilePieceBytes = std::uint64_t{4} << 20;
// Smaller reads go through the page cache: the first limit is for a call, the second for a piece.
constexpr std::uint64_t kLeastDirectBytes = std::uint64_t{32} << 20;
constexpr std::uint64_t kLeastDirectPiece = std::uint64_t{1} << 20;
constexpr std::size_t kGapBytes = std::size_t{4} << 10;  // reading so much costs less than a call
constexpr std::uint64_t kMaxFollowingBytes = DirectReads::kMaxFollowingBytes;
static_assert(kFilePieceBytes + kLeastDirectPiece + kMaxFollowingBytes <= DirectReads::kMaxBytes);
constexpr unsigned kDiskThreads = 6;  // they wait most of the time

// Returns a place of this thread for the bytes between two ranges, which are never looked at.
std::span<std::byte> unwanted() {
  thread_local std::array<std::byte, kGapBytes> place;
  return place;
}

// A part of the request. `into` is empty if the bytes are only shown.
struct Item {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::span<std::byte> into = {};
  std::size_t part = 0;     // index of the requested part
  std::uint64_t begin = 0;  // offset in that part
};

// The bytes that one call reads: items in order, with small gaps; at most DirectReads::kMaxBytes.
struct FilePiece {
  std::uint64_t offset = 0;
  std::uint64_t end = 0;
  std::span<const Item> items = {};
  // The place for the whole piece, if its items lie in memory as in the file, without gaps.
  std::span<std::byte> place = {};
};

// How many of the bytes at `offset` one piece takes: up to the end of a page, or all of them if the
// rest would be too small for a direct read.
std::uint64_t piece_size(std::uint64_t offset, std::uint64_t size) {
  if (size <= kFilePieceBytes + kLeastDirectPiece) return size;
  return kFilePieceBytes - offset % DirectReads::kAlignment;
}

std::vector<Item> in_order(std::span<const ByteSource::Part> parts) {
  std::vector<Item> items;
  items.reserve(parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const ByteSource::Part& part = parts[i];
    for (std::uint64_t begin = 0; begin < part.size;) {
      const std::uint64_t at = part.offset + begin;
      const std::uint64_t size = piece_size(at, part.size - begin);
      items.push_back(
          {at, size, part.into.empty() ? part.into : part.into.subspan(begin, size), i, begin});
      begin += size;
    }
  }
  const auto is_before = [](const Item& a, const Item& b) { return a.offset < b.offset; };
  if (!std::is_sorted(items.begin(), items.end(), is_before)) {
    std::sort(items.begin(), items.end(), is_before);
  }
  return items;
}

// Whether a piece that begins with `first` may include `next`, which ends at `end`. A large item
// has a piece of its own, with a little that follows it, so that it may be read without a copy.
bool fits(const Item& first, const Item& next, std::uint64_t end) {
  if (first.size >= kLeastDirectPiece && !first.into.empty()) {
    return end - (first.offset + first.size) <= kMaxFollowingBytes;
  }
  if (next.size >= kLeastDirectPiece && !next.into.empty()) return false;
  return end - first.offset <= kFilePieceBytes;
}

// Whether the item directly follows the piece, in the file and in memory.
bool is_adjacent(const FilePiece& piece, const Item& next) {
  return !piece.place.empty() && !next.into.empty() && next.offset == piece.end &&
         next.into.data() == piece.place.data() + piece.place.size();
}

std::vector<FilePiece> pieces_of(std::span<const Item> items) {
  constexpr std::size_t kMaxItems = IOV_MAX / 2;  // each with the gap before it
  std::vector<FilePiece> pieces;
  std::size_t first = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Item& item = items[i];
    const std::uint64_t end = item.offset + item.size;
    const bool is_near = !pieces.empty() && item.offset >= pieces.back().end &&
                         item.offset - pieces.back().end <= kGapBytes;
    const bool is_one = is_near && is_adjacent(pieces.back(), item) &&
                        end - items[first].offset <= kFilePieceBytes + kLeastDirectPiece;
    const bool joins =
        is_one || (is_near && i - first < kMaxItems && fits(items[first], item, end));
    if (!joins) {
      pieces.push_back({.offset = item.offset, .place = item.into});
      first = i;
    } else {
      std::span<std::byte>& place = pieces.back().place;
      place = is_one ? std::span(place.data(), place.size() + item.size) : std::span<std::byte>();
    }
    pieces.back().items = items.subspan(first, i + 1 - first);
    pieces.back().end = end;
  }
  return pieces;
}

// Returns `places` without the first `bytes` bytes.
std::span<iovec> without_first(std::span<iovec> places, std::size_t bytes) {
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

// Neighbours that are read and looked at together: as much as stays in a core's cache.
class Batch {
 public:
  static constexpr std::uint64_t kBytes = std::uint64_t{256} << 10;

  explicit Batch(std::uint64_t offset) : begin_(offset), end_(offset) {}

  std::uint64_t begin() const { return begin_; }
  std::uint64_t end() const { return end_; }
  bool is_full() const { return bytes_ == kBytes; }
  std::span<iovec> places() { return places_; }

  // Takes bytes of the item, from `done` on: as many as fit. Returns how many bytes it took.
  std::uint64_t add(const Item& item, std::uint64_t done) {
    if (item.offset + done > end_) {
      places_.push_back({unwanted().data(), static_cast<std::size_t>(item.offset + done - end_)});
    }
    Item some{.offset = item.offset + done, .part = item.part, .begin = item.begin + done};
    some.size = std::min(item.size - done, kBytes - bytes_);
    some.into = item.into.empty() ? scratch().subspan(used_, some.size)
                                  : item.into.subspan(done, some.size);
    if (item.into.empty()) used_ += some.size;
    bytes_ += some.size;
    end_ = some.offset + some.size;
    add_place(some.into);
    items_.push_back(some);
    return some.size;
  }
  void show(const Look& look) const {
    for (const Item& item : items_) {
      look(item.part, item.begin, item.into);
    }
  }

 private:
  void add_place(std::span<std::byte> into) {
    const bool is_adjacent =
        !places_.empty() &&
        static_cast<std::byte*>(places_.back().iov_base) + places_.back().iov_len == into.data();
    if (is_adjacent) {
      places_.back().iov_len += into.size();
    } else {
      places_.push_back({into.data(), into.size()});
    }
  }

  static std::span<std::byte> scratch() {
    static const BytesPerThread<kBytes> scratches;
    return scratches.here();
  }

  std::uint64_t begin_;
  std::uint64_t end_;
  std::uint64_t bytes_ = 0;
  std::uint64_t used_ = 0;  // of the scratch buffer
  std::vector<Item> items_;
  std::vector<iovec> places_;
};

// The index of the i-th of `count` pieces to be read, if the first `cached` pieces are in the page
// cache. Cached and other pieces take turns, so that the disk works while cores look at cached
// pieces.
std::size_t interleaved_index(std::size_t i, std::size_t cached, std::size_t count) {
  const std::size_t turns = std::min(cached, count - cached);
  if (i < 2 * turns) return i % 2 == 0 ? i / 2 : cached + i / 2;
  return cached > turns ? i - turns : i;
}

class FileSource final : public ByteSource, public ByteSource::LocalFile {
 public:
  FileSource(FileDescriptor fd, const std::string& path)
      : file_(std::make_shared<const FileHandle>(std::move(fd), path)) {}

  std::uint64_t size() const override { return file_->size(); }
  const std::string& name() const override { return file_->path(); }

  void read(std::span<const Range> ranges) const override {
    std::vector<Part> parts;
    parts.reserve(ranges.size());
    for (const Range& range : ranges) {
      parts.push_back({range.offset, range.into.size(), range.into});
    }
    read_each(parts, [](std::size_t, std::uint64_t, ByteView) {});
  }

  void read_each(std::span<const Part> parts, const Look& look) const override {
    std::uint64_t bytes = 0;
    for (const Part& part : parts) {
      check_range(part.offset, part.size);
      bytes += part.size;
    }
    const std::vector<Item> items = in_order(parts);
    const std::vector<FilePiece> pieces = pieces_of(items);
    const auto fd = file_->get();
    std::optional<DirectReads> direct;
    if (bytes >= kLeastDirectBytes) direct.emplace(*fd, size());
    const std::size_t cached = direct ? cached_at_front(*direct, pieces) : 0;
    const auto read_one = [&](std::size_t i) {
      const FilePiece& piece = pieces[interleaved_index(i, cached, pieces.size())];
      const bool is_large = direct && piece.end - piece.offset >= kLeastDirectPiece;
      if (is_large && !direct->is_cached(piece.offset, piece.end)) {
        if (read_in_place(*direct, piece, look)) return;
        if (direct->read(piece.offset, piece.end,
                         [&](ByteView all) { deliver_items(piece, all, look); })) {
          return;
        }
      }
      read_cached(*fd, piece, look);
    };
    for_each_parallel(pieces.size(), read_one, bytes, kDiskThreads);
    file_->check_unchanged(*fd);
  }

  SharedBytes view(std::uint64_t offset, std::uint64_t bytes) const override {
    check_range(offset, bytes);
    if (size() == 0) return {};
    if (!reads_are_guarded()) return ByteSource::view(offset, bytes);
    std::call_once(mapped_, [this] {
      map_ = map_descriptor(file_->get()->get(), size(), name(),
                            [file = file_] { file->check_unchanged(*file->get()); });
    });
    return map_.part(offset, bytes);
  }

  const ByteSource::LocalFile* local_file() const override { return this; }
  SharedBytes map_privately() const override {
    const auto fd = file_->get();
    SharedBytes mapping = cairn::map_privately(fd->get(), size(), name());
    file_->check_unchanged(*fd);
    return mapping;
  }
  void bring_into_page_cache(const std::atomic<bool>& ended) const override {
    constexpr std::uint64_t kStep = std::uint64_t{512} << 10;  // most disks deliver so much at once
    constexpr std::uint64_t kInFlight = std::uint64_t{16} << 20;
    const auto fd = file_->get();
    const auto advise = [&](std::uint64_t at) {
      return posix_fadvise(fd->get(), static_cast<off_t>(at), kStep, POSIX_FADV_WILLNEED) == 0;
    };
    std::byte last = {};  // the last byte of a step; reading it waits for the step
    for (std::uint64_t at = 0; at < size() && !ended && advise(at); at += kStep) {
      const std::uint64_t awaited = at + kStep - kInFlight - 1;
      if (at >= kInFlight && pread(fd->get(), &last, 1, static_cast<off_t>(awaited)) != 1) return;
    }
  }

 private:
  // How many pieces at the front are mostly in the page cache. Files get into the cache from their
  // front.
  static std::size_t cached_at_front(const DirectReads& direct, std::span<const FilePiece> pieces) {
    const auto is_cached = [&](const FilePiece& piece) {
      return direct.is_cached(piece.offset, piece.end);
    };
    return std::ranges::partition_point(pieces, is_cached) - pieces.begin();
  }

  // Takes the items out of a direct read's buffer. Copied bytes are shown while they are in the
  // core's cache.
  static void deliver_items(const FilePiece& piece, ByteView all, const Look& look) {
    constexpr std::uint64_t kInCache = std::uint64_t{256} << 10;
    for (const Item& item : piece.items) {
      const ByteView bytes = all.subspan(item.offset - piece.offset, item.size);
      if (item.into.empty()) {
        look(item.part, item.begin, bytes);
        continue;
      }
      for (std::uint64_t done = 0; done < item.size; done += kInCache) {
        const std::uint64_t size = std::min(item.size - done, kInCache);
        const std::span<std::byte> into = item.into.subspan(done, size);
        std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(done), size, into.begin());
        look(item.part, item.begin + done, into);
      }
    }
  }

  // Reads an item directly into its destination, with a little that follows the item in the file.
  // Returns false if the destination is not aligned as the item is in the file, or if the item
  // cannot be read.
  static bool read_in_place(const DirectReads& direct, const FilePiece& piece, const Look& look) {
    const Item& item = piece.items.front();
    const std::uint64_t end = item.offset + item.size;
    if (item.into.empty()) return false;
    if (!piece.place.empty()) {
      return direct.read_in_place(piece.offset, piece.place, 0, [&](ByteView) {
        for (const Item& each : piece.items) {
          look(each.part, each.begin, each.into);
        }
      });
    }
    return direct.read_in_place(item.offset, item.into, piece.end - end, [&](ByteView rest) {
      look(item.part, item.begin, item.into);
      deliver_items({end, piece.end, piece.items.subspan(1)}, rest, look);
    });
  }

  void read_cached(const FileDescriptor& fd, const FilePiece& piece, const Look& look) const {
    Batch batch(piece.offset);
    const auto flush = [&] {
      read_places(fd, batch.begin(), batch.places());
      batch.show(look);
      batch = Batch(batch.end());
    };
    for (const Item& item : piece.items) {
      for (std::uint64_t done = 0; done < item.size;) {
        done += batch.add(item, done);
        if (batch.is_full()) flush();
      }
    }
    flush();
  }

  void read_places(const FileDescriptor& fd, std::uint64_t at, std::span<iovec> places) const {
    while (!places.empty()) {
      const ssize_t count =
          preadv(fd.get(), places.data(), static_cast<int>(places.size()), static_cast<off_t>(at));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) refuse(at, errno);
      places = without_first(places, static_cast<std::size_t>(count));
      if (count == 0 && !places.empty()) refuse(at, 0);
      at += static_cast<std::uint64_t>(count);
    }
  }

  [[noreturn]] void refuse(std::uint64_t at, int error) const {
    const std::string what = "cannot read " + name() + " at byte " + std::to_string(at);
    if (error == 0) throw UnreadableError(what + ": it was cut off since it was opened", EIO);
    throw_read_error(error, what);
  }

  std::shared_ptr<const FileHandle> file_;
  mutable std::once_flag mapped_;
  mutable SharedBytes map_;
};

}  // namespace

std::shared_ptr<const ByteSource> make_file_source(FileDescriptor fd, const std::string& path) {
  return std::make_shared<const FileSource>(std::move(fd), path);
}

void bring_into_page_cache(const ByteSource& source, const std::atomic<bool>& ended) noexcept try {
  if (const auto* const file = source.local_file()) file->bring_into_page_cache(ended);
} catch (const std::exception&) {  // a later reader gets the error
}

}  // namespace cairn
