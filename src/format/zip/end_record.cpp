#include "format/zip/end_record.h"

#include <algorithm>

#include "cairn/error.h"

#include "core/byte_reader.h"

namespace cairn::zip {
namespace {

constexpr std::size_t kMaxTrailingBytes = 65535;  // PyTorch searches this far for the end record

struct EndRecord {
  std::uint64_t position = 0;
  std::uint16_t entries = 0;
  std::uint32_t size = 0;
  std::uint32_t offset = 0;
};

// The end of a file, and its offset. Positions count from the file's start.
struct Tail {
  ByteView bytes;
  std::uint64_t begin = 0;

  std::uint64_t end() const { return begin + bytes.size(); }
  ByteView from(std::uint64_t position) const { return bytes.subspan(position - begin); }
};

std::uint64_t find_end_position(const Tail& tail) {
  if (tail.bytes.size() >= kEndSize) {
    const std::size_t last = tail.bytes.size() - kEndSize;
    const std::size_t first = last - std::min(last, kMaxTrailingBytes);
    for (std::size_t at = last + 1; at-- > first;) {
      const auto signature = load_little_endian<std::uint32_t>(tail.bytes.data() + at);
      if (signature == kEndSignature) return tail.begin + at;
    }
  }
  throw CorruptError("the zip directory at the end is missing: the file was probably cut off", {},
                     tail.end());
}

EndRecord read_end(const Tail& tail) {
  EndRecord end{.position = find_end_position(tail)};
  ByteReader in(tail.from(end.position), "the end record", end.position);
  in.u32();
  const std::uint32_t disks = in.u32();
  end.entries = in.u16();
  const std::uint16_t entries_in_all = in.u16();
  end.size = in.u32();
  end.offset = in.u32();
  if (disks != 0 || entries_in_all != end.entries) {
    throw CorruptError("the zip is marked as one part of several", {}, end.position);
  }
  return end;
}

// Returns whether a number of the end record equals the number of the Zip64 record, or says that
// the number did not fit.
template <class T>
bool agrees(T field, std::uint64_t value) {
  return field == value || field == static_cast<T>(~T{0});
}

// Reads the Zip64 end record that ends at `end`'s locator. Sets `directory_end` to its position.
DirectoryExtent read_end64(const Tail& tail, const EndRecord& end, std::uint64_t& directory_end) {
  const std::uint64_t locator = end.position - kLocator64Size;
  ByteReader in(tail.from(locator).first(kLocator64Size), "the Zip64 locator", locator);
  in.u32();
  const std::uint32_t disk = in.u32();
  const std::uint64_t position = in.u64();
  const std::uint32_t disks = in.u32();
  if (disk != 0 || disks > 1) {
    throw CorruptError("the zip is marked as one part of several", {}, locator);
  }
  if (locator < kEnd64Size || position > locator - kEnd64Size) {
    throw CorruptError("the Zip64 locator points outside the file", {}, locator);
  }
  if (position < tail.begin) {
    throw CorruptError("the Zip64 end record is too long", {}, locator);
  }

  ByteReader record(tail.from(position).first(locator - position), "the Zip64 end record",
                    position);
  const bool is_signed = record.u32() == kEnd64Signature;
  if (!is_signed || record.u64() != locator - position - 12) {
    throw CorruptError("the Zip64 end record is damaged", {}, position);
  }
  record.u32();  // versions
  const std::uint64_t disk_numbers = record.u64();
  const std::uint64_t entries_here = record.u64();
  DirectoryExtent extent;
  extent.entries = record.u64();
  extent.size = record.u64();
  extent.offset = record.u64();
  if (disk_numbers != 0 || entries_here != extent.entries) {
    throw CorruptError("the zip is marked as one part of several", {}, position);
  }
  if (!agrees(end.entries, extent.entries) || !agrees(end.size, extent.size) ||
      !agrees(end.offset, extent.offset)) {
    throw CorruptError("the two end records of the zip contradict each other", {}, end.position);
  }
  directory_end = position;
  return extent;
}

bool has_locator64(const Tail& tail, const EndRecord& end) {
  if (end.position - tail.begin < kLocator64Size) {
    if (tail.begin == 0) return false;
    throw CorruptError("the end record of the zip is too far from the end of the file", {},
                       end.position);
  }
  const ByteView locator = tail.from(end.position - kLocator64Size);
  return load_little_endian<std::uint32_t>(locator.data()) == kLocator64Signature;
}

}  // namespace

std::optional<std::uint64_t> find_late_begin(ByteView bytes, std::uint64_t begin) {
  const Tail tail{bytes, begin};
  const EndRecord end = read_end(tail);
  if (!has_locator64(tail, end)) {
    const std::uint64_t counted = std::uint64_t{end.offset} + end.size;
    if (counted >= end.position) return std::nullopt;
    return end.position - counted;
  }
  constexpr std::size_t kEndsSize = kEnd64Size + kLocator64Size;
  if (end.position - tail.begin < kEndsSize) return std::nullopt;
  ByteReader in(tail.from(end.position - kEndsSize), "the end of the zip");
  if (in.u32() != kEnd64Signature) return std::nullopt;
  in.take(36);  // to the directory's size
  const std::uint64_t size = in.u64();
  const std::uint64_t offset = in.u64();
  in.take(8);  // the locator's start
  const std::uint64_t counted = in.u64();
  const std::uint64_t position = end.position - kEndsSize;
  const bool fits = counted < position && offset <= counted && size == counted - offset &&
                    agrees(end.size, size) && agrees(end.offset, offset);
  return fits ? std::optional(position - counted) : std::nullopt;
}

DirectoryExtent find_directory(ByteView bytes, std::uint64_t begin) {
  const Tail tail{bytes, begin};
  const EndRecord end = read_end(tail);
  DirectoryExtent extent{.offset = end.offset, .size = end.size, .entries = end.entries};
  std::uint64_t directory_end = end.position;
  if (has_locator64(tail, end)) extent = read_end64(tail, end, directory_end);

  if (extent.offset > directory_end || extent.size != directory_end - extent.offset) {
    throw CorruptError("the zip directory is not where the end record says", {}, end.position);
  }
  if (extent.entries == 0 || extent.entries > extent.size / kCentralHeaderSize) {
    throw CorruptError("the zip directory cannot hold " + std::to_string(extent.entries) +
                           " entries in " + std::to_string(extent.size) + " bytes",
                       {}, end.position);
  }
  return extent;
}

}  // namespace cairn::zip
