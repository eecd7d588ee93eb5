#include "format/zip/directory.h"

#include <algorithm>
#include <array>
#include <unordered_set>

#include "cairn/error.h"

#include "core/byte_reader.h"
#include "core/hash/seeded_hash.h"
#include "format/pickle/write/pickle_size.h"
#include "format/two_files.h"
#include "format/zip/end_record.h"
#include "format/zip/names.h"
#include "format/zip/small_parts.h"

namespace cairn::zip {
namespace {

// An entry of the central directory, with its full name as in the file, prefix included.
struct RawEntry {
  Entry entry;
  std::string_view name;
};

constexpr std::uint16_t kFlagsNotRead =
    kFlagEncrypted | 0x0020 /* patch */ | 0x0040 /* strong encryption */ | 0x2000 /* masked */;

// Takes saturated fields from the Zip64 extra field, in the order of APPNOTE 4.5.3.
void apply_zip64(ByteView extra, std::uint64_t at, const std::vector<std::uint64_t*>& saturated) {
  ByteReader in(extra, "an extra field of the zip directory");
  while (in.remaining() >= 4) {
    const std::uint16_t id = in.u16();
    const ByteView content = in.take(in.u16());
    if (id != kZip64Field) continue;
    ByteReader values(content, "a Zip64 field of the zip directory");
    for (std::uint64_t* field : saturated) {
      *field = values.u64();
    }
    return;
  }
  if (!saturated.empty()) {
    throw CorruptError("an entry of the zip directory lacks its Zip64 field", {}, at);
  }
}

RawEntry read_central_header(ByteReader& in, std::uint64_t directory_offset) {
  const std::uint64_t at = directory_offset + in.position();
  if (in.u32() != kCentralSignature) {
    throw CorruptError("an entry of the zip directory is damaged", {}, at);
  }
  in.u32();  // versions
  RawEntry raw;
  raw.entry.flags = in.u16();
  raw.entry.method = in.u16();
  in.u32();  // time and date
  raw.entry.record.crc32 = in.u32();
  raw.entry.stored_size = in.u32();
  raw.entry.record.size = in.u32();
  const std::uint16_t name_size = in.u16();
  const std::uint16_t extra_size = in.u16();
  const std::uint16_t comment_size = in.u16();
  const std::uint16_t disk = in.u16();
  in.take(6);  // attributes
  raw.entry.header_offset = in.u32();
  raw.name = in.take_text(name_size);
  const ByteView extra = in.take(extra_size);
  in.take(comment_size);

  std::vector<std::uint64_t*> saturated;
  for (std::uint64_t* field :
       {&raw.entry.record.size, &raw.entry.stored_size, &raw.entry.header_offset}) {
    if (*field == kMax32) saturated.push_back(field);
  }
  apply_zip64(extra, at, saturated);

  if (!is_safe_name(raw.name.ends_with('/') ? raw.name.substr(0, raw.name.size() - 1) : raw.name)) {
    throw CorruptError("a record of the zip has a name that is not allowed", {}, at);
  }
  const auto named = [&] { return "record " + std::string(raw.name); };
  if (disk != 0) throw CorruptError(named() + " claims to be in another part of the zip", {}, at);
  if ((raw.entry.flags & kFlagsNotRead) != 0) throw UnsupportedError(named() + " is encrypted");
  if (!raw.entry.is_compressed() && raw.entry.stored_size != raw.entry.record.size) {
    throw CorruptError(named() + " is not compressed, but has two different sizes", {}, at);
  }
  return raw;
}

// Returns the digits of PyTorch's names of storages, "data/0" and so on, ignoring case. Empty for
// other names.
std::string_view number_in(std::string_view name) {
  constexpr std::string_view kFolder = "data/";
  if (fold_case(name.substr(0, kFolder.size())) != kFolder) return {};
  const std::string_view number = name.substr(kFolder.size());
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return std::ranges::all_of(number, is_digit) ? number : std::string_view();
}

// Returns whether each number is greater than the previous one, so that none occurs twice.
bool are_numbers_ascending(const std::vector<Entry>& entries) {
  std::string_view before;
  for (const Entry& entry : entries) {
    const std::string_view number = number_in(entry.record.name);
    if (number.empty()) continue;
    if (std::pair(number.size(), number) <= std::pair(before.size(), before)) return false;
    before = number;
  }
  return true;
}

// Returns whether two entries may have the same name, ignoring case. Compares hashes, so that no
// texts are kept in memory. PyTorch's numbers need no hash.
bool may_have_duplicates(const std::vector<Entry>& entries) {
  const bool has_numbers = are_numbers_ascending(entries);
  std::vector<std::uint64_t> hashes;
  for (const Entry& entry : entries) {
    const std::string& name = entry.record.name;
    if (!has_numbers || number_in(name).empty()) hashes.push_back(seeded_hash(fold_case(name)));
  }
  std::sort(hashes.begin(), hashes.end());
  return std::adjacent_find(hashes.begin(), hashes.end()) != hashes.end();
}

std::string full_name(const Directory& directory, const Entry& entry) {
  return directory.prefix + "/" + entry.record.name;
}

void check_duplicates(const Directory& directory) {
  if (!may_have_duplicates(directory.entries)) return;
  std::unordered_set<std::string, TextHash> seen;
  for (const Entry& entry : directory.entries) {
    if (seen.insert(fold_case(entry.record.name)).second) continue;
    throw CorruptError("record " + full_name(directory, entry) + " occurs twice", {},
                       directory.extent.offset);
  }
}

// Returns the folder of the first record; all records must be in it.
std::string folder_of(std::string_view first, std::uint64_t directory_offset) {
  const std::size_t slash = first.find('/');
  if (slash != std::string_view::npos) return std::string(first.substr(0, slash));
  throw CorruptError("record " + std::string(first) + " is not in a folder", {}, directory_offset);
}

// Returns the name below the folder.
std::string_view name_in(std::string_view folder, std::string_view name,
                         std::uint64_t directory_offset) {
  const std::size_t slash = folder.size();
  const bool is_in_it = name.size() > slash + 1 && name.starts_with(folder) && name[slash] == '/';
  if (is_in_it && !name.ends_with('/')) return name.substr(slash + 1);
  throw CorruptError("record " + std::string(name) + " is not in the folder " + std::string(folder),
                     {}, directory_offset);
}

// Reads the folder and the entries, in the directory's order. `bytes` are the bytes of the extent.
// Drops entries for folders, which zip tools write and PyTorch does not.
void read_central_directory(ByteView bytes, Directory& directory) {
  const DirectoryExtent& extent = directory.extent;
  ByteReader in(bytes, "the zip directory");
  directory.entries.reserve(extent.entries);
  for (std::uint64_t i = 0; i < extent.entries; ++i) {
    RawEntry raw = read_central_header(in, extent.offset);
    if (i == 0) directory.prefix = folder_of(raw.name, extent.offset);
    if (raw.name.ends_with('/') && raw.entry.record.size == 0) continue;
    raw.entry.record.name = name_in(directory.prefix, raw.name, extent.offset);
    directory.entries.push_back(std::move(raw.entry));
  }
  if (in.remaining() != 0) {
    throw CorruptError("the zip directory is longer than its entries", {},
                       extent.offset + in.position());
  }
  check_duplicates(directory);
}

// Sets record.offset of all entries to where PyTorch puts records with these names and sizes.
// Returns false if something is not at its place; the offsets are then meaningless.
bool set_offsets_by_layout(Directory& in_file_order) {
  const std::uint64_t end = in_file_order.extent.offset;
  std::uint64_t at = 0;
  for (Entry& entry : in_file_order.entries) {
    if (entry.header_offset != at || entry.is_compressed()) return false;
    at += local_header_size(in_file_order.name_size(entry), at, entry.record.size);
    entry.record.offset = at;
    // Everything before the directory lies in the file, so no sum of it overflows.
    if (at > end || entry.record.size > end - at) return false;
    at += entry.record.size + data_descriptor_size(entry.placed());
  }
  return at == end;
}

// Sets record.offset of all entries from the lengths in their local headers.
void read_offsets(Directory& directory, const ByteSource& source) {
  constexpr std::size_t kNameSizeAt = 26;
  const std::uint64_t end = directory.extent.offset;
  std::vector<Entry>& entries = directory.entries;
  std::vector<std::byte> headers(entries.size() * kLocalHeaderSize);
  std::vector<ByteSource::Range> ranges;
  ranges.reserve(entries.size());
  for (const Entry& entry : entries) {
    const std::uint64_t at = entry.header_offset;
    if (at > end || end - at < kLocalHeaderSize) {
      throw CorruptError("record " + full_name(directory, entry) + " lies outside the file", {},
                         at);
    }
    ranges.push_back(
        {at, std::span(headers).subspan(ranges.size() * kLocalHeaderSize, kLocalHeaderSize)});
  }
  source.read(ranges);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    Entry& entry = entries[i];
    const std::byte* sizes = ranges[i].into.data() + kNameSizeAt;
    entry.record.offset = entry.header_offset + kLocalHeaderSize +
                          load_little_endian<std::uint16_t>(sizes) +
                          load_little_endian<std::uint16_t>(sizes + 2);
    if (entry.record.offset > end || entry.stored_size > end - entry.record.offset) {
      throw CorruptError("record " + full_name(directory, entry) +
                             ": its local header claims more bytes than the file has",
                         {}, entry.header_offset);
    }
  }
}

// `bytes` are all bytes from the beginning of the header to the beginning of the record.
void check_local_header(const Entry& entry, const std::string& name, ByteView bytes) {
  const std::uint64_t at = entry.header_offset;
  ByteReader in(bytes, "a local header of the zip", at);
  const auto fail = [&](const char* what) {
    throw CorruptError("record " + name + ": its local header " + what, {}, at);
  };
  if (in.u32() != kLocalSignature) fail("is damaged");
  in.u16();  // version needed
  if (in.u16() != entry.flags) fail("has other flags than the zip directory");
  if (in.u16() != entry.method) fail("has another method than the zip directory");
  in.u32();  // time and date
  const std::uint32_t crc32 = in.u32();
  const std::uint32_t stored_size = in.u32();
  const std::uint32_t size = in.u32();
  const std::uint16_t name_size = in.u16();
  const std::uint16_t extra_size = in.u16();
  if (in.take_text(name_size) != name) fail("has another name than the zip directory");
  in.take(extra_size);
  if (in.remaining() != 0) fail("has another length than the zip directory says");

  const FileRecord& record = entry.record;
  const bool follows = (entry.flags & kFlagDescriptor) != 0;  // 0 here; real values after the data
  const auto is_size = [&](std::uint32_t here, std::uint64_t in_directory) {
    return here == in_directory || here == kMax32 || (follows && here == 0);
  };
  if (crc32 != record.crc32 && !(follows && crc32 == 0))
    fail("has another CRC than the zip directory");
  if (!is_size(stored_size, entry.stored_size) || !is_size(size, record.size)) {
    fail("has another size than the zip directory");
  }
}

void check_overlaps(const Directory& in_file_order) {
  const std::vector<Entry>& entries = in_file_order.entries;
  for (std::size_t i = 1; i < entries.size(); ++i) {
    const Entry& before = entries[i - 1];
    const std::uint64_t begin = entries[i].header_offset;
    if (begin < before.record.offset + before.stored_size) {
      throw CorruptError("records " + full_name(in_file_order, before) + " and " +
                             full_name(in_file_order, entries[i]) + " overlap",
                         {}, begin);
    }
  }
}

// The first read takes kHeadBytes of the beginning, where PyTorch has the pickle, and end_bytes()
// of the end. That is enough for the directory, unless tensors are tiny.
constexpr std::uint64_t kHeadBytes = std::uint64_t{128} << 10;
constexpr std::uint64_t kLeastEndBytes = std::uint64_t{256} << 10;
constexpr std::uint64_t kMaxEndBytes = std::uint64_t{1} << 20;
static_assert(kLeastEndBytes >= kTailBytes);
// If the caller has read this much of the end, and the first local header, fetch_ends() reads
// nothing.
constexpr std::uint64_t kShortTailBytes = std::uint64_t{1} << 10;

std::uint64_t end_bytes(std::uint64_t size) {
  return std::clamp(size / 128, kLeastEndBytes, kMaxEndBytes);
}

// Returns the bytes of the pickle in `head`, if it is the first record, as PyTorch and cairn write
// it.
ByteView beginning_of_pickle(const SharedBytes& head) {
  constexpr std::size_t kNameSizeAt = 26;
  if (head.view.size() < kLocalHeaderSize) return {};
  const std::byte* sizes = head.view.data() + kNameSizeAt;
  const std::size_t name_size = load_little_endian<std::uint16_t>(sizes);
  const std::size_t extra_size = load_little_endian<std::uint16_t>(sizes + 2);
  const ByteView behind = head.view.subspan(kLocalHeaderSize);
  if (name_size + extra_size > behind.size()) return {};
  const bool is_pickle = as_text(behind.first(name_size)).ends_with("/data.pkl");
  return is_pickle ? behind.subspan(name_size + extra_size) : ByteView();
}

// Guesses where the pickle ends, since only the directory tells its size. The pickle has a tensor
// for almost each entry. The guess is that the pickle continues as it begins, or with names of
// usual length if the beginning does not tell. The guess adds half of that, for names that get
// longer. If the beginning is unlike the rest, the surplus is at most kMaxSurplusBytes plus three
// times the directory's size, which usual names need.
std::uint64_t guess_end_of_pickle(const Windows& source, const DirectoryExtent& extent) {
  constexpr std::uint64_t kUsualBytes = 150;
  constexpr std::uint64_t kMaxBytes = 2048;
  constexpr std::uint64_t kMaxSurplusBytes = std::uint64_t{32} << 20;
  const std::uint64_t there = std::min(source.size(), kHeadBytes);
  const auto bytes = source.has(0, there)
                         ? pickle::bytes_per_storage(beginning_of_pickle(source.view(0, there)))
                         : std::nullopt;
  const std::uint64_t guess =
      there + extent.entries * std::min(bytes.value_or(kUsualBytes), kMaxBytes) / 2 * 3;
  return std::min(guess, 3 * extent.size + kMaxSurplusBytes);
}

// Does the second read if the directory is not in memory yet: reads the directory, the small
// records before it, and the pickle.
void fetch_directory(Windows& source, const DirectoryExtent& extent) {
  constexpr std::uint64_t kBefore = 65536;
  if (source.has(extent.offset, extent.size)) return;
  const std::uint64_t begin = extent.offset - std::min(extent.offset, kBefore);
  source.fetch({{begin, extent.offset - begin + extent.size},
                {0, std::min(begin, guess_end_of_pickle(source, extent))}});
}

// Does the second read if the directory was in memory before: reads the missing bytes of the
// records that every reader needs. These bytes stay in memory. A record of more than kMaxFetched
// is left to the code that needs it.
void fetch_small_records(Windows& source, const std::vector<Entry>& entries) {
  constexpr std::array<std::string_view, 6> kSmall = {
      "data.pkl", "constants.pkl", "byteorder",
      "version",  ".data/version", ".cairn/manifest.json"};  // checkpoint/plan/manifest.h
  constexpr std::uint64_t kMaxGap = 4096;                    // PyTorch has gaps after the pickle
  constexpr std::uint64_t kMaxFetched = std::uint64_t{64} << 20;  // a sparse file may claim more
  std::vector<Windows::Extent> extents;
  for (const Entry& entry : entries) {
    const FileRecord& record = entry.record;
    const bool is_small = record.size <= kMaxFetched &&
                          std::find(kSmall.begin(), kSmall.end(), record.name) != kSmall.end();
    if (!is_small || entry.is_compressed() || source.has(record.offset, record.size)) continue;
    if (!extents.empty() &&
        record.offset - (extents.back().offset + extents.back().size) <= kMaxGap) {
      extents.back().size = record.offset + record.size - extents.back().offset;
    } else {
      extents.push_back({record.offset, record.size});
    }
  }
  source.fetch(std::move(extents));
}

// Throws UnsupportedError if the zip at the end is another file than the one at the beginning.
void check_one_zip(Windows& source) {
  const std::uint64_t tail = source.size() - std::min<std::uint64_t>(source.size(), kTailBytes);
  const auto begin = find_late_begin(source.view(tail, source.size() - tail).view, tail);
  if (!begin || *begin == 0 || source.size() - *begin < kLocalHeaderSize) return;
  const SharedBytes header = source.view(*begin, kLocalHeaderSize);
  if (load_little_endian<std::uint32_t>(header.view.data()) != kLocalSignature) return;
  throw UnsupportedError(two_files_message(*begin));
}

// Finds the directory in the part of the end that is in memory, if that suffices. Otherwise looks
// in all of the end that may hold the directory.
DirectoryExtent find_directory_in(Windows& source) {
  const std::uint64_t size = source.size();
  const auto find_in_last = [&](std::uint64_t bytes) {
    const std::uint64_t tail = size - std::min(size, bytes);
    return find_directory(source.view(tail, size - tail).view, tail);
  };
  const std::uint64_t all = std::min<std::uint64_t>(size, kTailBytes);
  if (!source.has(size - all, all) && source.has(size - kShortTailBytes, kShortTailBytes)) {
    try {
      return find_in_last(kShortTailBytes);
    } catch (const CorruptError&) {
      // The end records begin earlier, or other bytes follow them.
    }
  }
  try {
    return find_in_last(kTailBytes);
  } catch (const CorruptError&) {
    check_one_zip(source);
    throw;
  }
}

}  // namespace

void fetch_ends(Windows& source) {
  const std::uint64_t size = source.size();
  const std::uint64_t end = end_bytes(size);
  // The caller knows more about the file, and has read its ends.
  if (size > kShortTailBytes && source.has(0, kLocalHeaderSize) &&
      source.has(size - kShortTailBytes, kShortTailBytes)) {
    return;
  }
  if (size <= kHeadBytes + end) return source.fetch({{0, size}});
  source.fetch({{0, kHeadBytes}, {size - end, end}});
}

const Entry* find_compressed(const Directory& directory) {
  const auto found = std::ranges::find_if(directory.entries, [](const Entry& entry) {
    const std::string& name = entry.record.name;
    return entry.is_compressed() && !name.starts_with("code/") && !name.starts_with("extra/");
  });
  return found == directory.entries.end() ? nullptr : &*found;
}

std::vector<std::string> read_names(Windows& source) {
  fetch_ends(source);
  const DirectoryExtent extent = find_directory_in(source);
  const SharedBytes bytes = source.view(extent.offset, extent.size);
  ByteReader in(bytes.view, "the zip directory");
  std::vector<std::string> names;
  names.reserve(extent.entries);
  for (std::uint64_t i = 0; i < extent.entries; ++i) {
    names.emplace_back(read_central_header(in, extent.offset).name);
  }
  return names;
}

Directory read_directory(Windows& source) {
  fetch_ends(source);
  Directory directory{.extent = find_directory_in(source)};
  const DirectoryExtent& extent = directory.extent;
  fetch_directory(source, extent);
  const SharedBytes bytes = source.view(extent.offset, extent.size);
  read_central_directory(bytes.view, directory);
  std::vector<Entry>& entries = directory.entries;
  const auto by_place = [](const Entry& a, const Entry& b) {
    return a.header_offset < b.header_offset;
  };
  if (!std::is_sorted(entries.begin(), entries.end(), by_place)) {
    std::sort(entries.begin(), entries.end(), by_place);
  }
  const bool is_laid_out = set_offsets_by_layout(directory);
  if (!is_laid_out) read_offsets(directory, source);
  check_overlaps(directory);
  fetch_small_records(source, entries);
  if (!is_laid_out) check_local_headers(directory, source);
  return directory;
}

void check_local_headers(const Directory& directory, const ByteSource& source) {
  SmallParts headers(source);
  for (const Entry& entry : directory.entries) {
    headers.add(entry.header_offset, entry.record.offset - entry.header_offset,
                [&entry, name = full_name(directory, entry)](ByteView bytes) {
                  check_local_header(entry, name, bytes);
                  return true;
                });
  }
  headers.flush();
}

}  // namespace cairn::zip
