#include "format/zip/directory.h"

#include <algorithm>
#include <unordered_set>

#include "cairn/error.h"

#include "base/byte_reader.h"
#include "base/seeded_hash.h"
#include "format/zip/end_record.h"
#include "format/zip/names.h"

namespace cairn::zip {
namespace {

// An entry of the central directory with what only checking needs.
struct RawEntry {
  Entry entry;
  std::string_view name;  // with prefix, as it stands in the file
  std::uint16_t flags = 0;
  std::uint16_t method = 0;
  std::uint64_t compressed_size = 0;
};

constexpr std::uint16_t kDeflate = 8;
constexpr std::uint16_t kFlagsNotRead =
    kFlagEncrypted | 0x0020 /* patch */ | 0x0040 /* strong encryption */ | 0x2000 /* masked */;

// Takes the fields that are saturated from the Zip64 extra field, as APPNOTE 4.5.3 orders them.
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
  raw.flags = in.u16();
  raw.method = in.u16();
  in.u32();  // time and date
  raw.entry.record.crc32 = in.u32();
  raw.compressed_size = in.u32();
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
       {&raw.entry.record.size, &raw.compressed_size, &raw.entry.header_offset}) {
    if (*field == kMax32) saturated.push_back(field);
  }
  apply_zip64(extra, at, saturated);

  if (!is_safe_name(raw.name.ends_with('/') ? raw.name.substr(0, raw.name.size() - 1) : raw.name)) {
    throw CorruptError("a record of the zip has an impossible name", {}, at);
  }
  const std::string named = "record " + std::string(raw.name);
  if (disk != 0) throw CorruptError(named + " is said to be in another part of the zip", {}, at);
  if ((raw.flags & kFlagsNotRead) != 0) throw UnsupportedError(named + " is encrypted");
  if (raw.method == 0 && raw.compressed_size != raw.entry.record.size) {
    throw CorruptError(named + " is stored, yet has two sizes", {}, at);
  }
  return raw;
}

std::vector<RawEntry> read_central_directory(ByteView bytes, const DirectoryExtent& extent) {
  ByteReader in(bytes.subspan(extent.offset, extent.size), "the zip directory");
  std::vector<RawEntry> entries;
  entries.reserve(extent.entries);
  for (std::uint64_t i = 0; i < extent.entries; ++i) {
    entries.push_back(read_central_header(in, extent.offset));
  }
  if (in.remaining() != 0) {
    throw CorruptError("the zip directory is longer than its entries", {},
                       extent.offset + in.position());
  }
  return entries;
}

// Sets record.name and drops entries that stand for folders, which zip tools (not PyTorch) write.
std::string take_names(std::vector<RawEntry>& entries, std::uint64_t directory_offset) {
  const std::string_view first = entries.front().name;
  const std::size_t slash = first.find('/');
  if (slash == std::string_view::npos) {
    throw CorruptError("record " + std::string(first) + " is in no folder", {}, directory_offset);
  }
  std::string prefix(first.substr(0, slash));
  std::erase_if(entries, [](const RawEntry& raw) {
    return raw.name.ends_with('/') && raw.entry.record.size == 0;
  });
  std::unordered_set<std::string, TextHash> seen;
  for (RawEntry& raw : entries) {
    const bool has_prefix =
        raw.name.size() > slash + 1 && raw.name.starts_with(prefix) && raw.name[slash] == '/';
    if (!has_prefix || raw.name.ends_with('/')) {
      throw CorruptError("record " + std::string(raw.name) + " is not in the folder " + prefix, {},
                         directory_offset);
    }
    raw.entry.record.name = raw.name.substr(slash + 1);
    if (!seen.insert(folded(raw.entry.record.name)).second) {
      throw CorruptError("record " + std::string(raw.name) + " is there twice", {},
                         directory_offset);
    }
  }
  return prefix;
}

// Sets record.offset.
void check_local_header(RawEntry& raw, ByteView before_directory) {
  const std::uint64_t at = raw.entry.header_offset;
  const std::string named = "record " + std::string(raw.name);
  if (at > before_directory.size()) {
    throw CorruptError(named + " lies outside the file", {}, at);
  }
  ByteReader in(before_directory.subspan(at), "a local header of the zip", at);
  const auto fail = [&](const char* what) {
    throw CorruptError(named + ": its local header " + what, {}, at);
  };
  if (in.u32() != kLocalSignature) fail("is damaged");
  in.u16();  // version needed
  if (in.u16() != raw.flags) fail("has other flags than the zip directory");
  if (in.u16() != raw.method) fail("has another method than the zip directory");
  in.u32();  // time and date
  const std::uint32_t crc32 = in.u32();
  const std::uint32_t compressed_size = in.u32();
  const std::uint32_t size = in.u32();
  const std::uint16_t name_size = in.u16();
  const std::uint16_t extra_size = in.u16();
  if (in.take_text(name_size) != raw.name) fail("has another name than the zip directory");
  in.take(extra_size);

  const FileRecord& record = raw.entry.record;
  const bool follows = (raw.flags & kFlagDescriptor) != 0;  // 0 here, real values after the data
  const auto is_size = [&](std::uint32_t here, std::uint64_t in_directory) {
    return here == in_directory || here == kMax32 || (follows && here == 0);
  };
  if (crc32 != record.crc32 && !(follows && crc32 == 0)) fail("has another CRC");
  if (!is_size(compressed_size, raw.compressed_size) || !is_size(size, record.size)) {
    fail("has another size");
  }
  if (raw.compressed_size > in.remaining()) fail("announces more bytes than there are");
  raw.entry.record.offset = at + in.position();
}

void check_overlaps(const std::vector<RawEntry>& in_file_order) {
  for (std::size_t i = 1; i < in_file_order.size(); ++i) {
    const RawEntry& before = in_file_order[i - 1];
    if (in_file_order[i].entry.header_offset <
        before.entry.record.offset + before.compressed_size) {
      throw CorruptError("records " + std::string(before.name) + " and " +
                             std::string(in_file_order[i].name) + " overlap",
                         {}, in_file_order[i].entry.header_offset);
    }
  }
}

// Compares the bytes at *offset with `expected`; moves past them, or to the first that differs.
bool matches(ByteView bytes, std::string_view expected, std::uint64_t* offset) {
  const std::string_view found = as_text(bytes).substr(*offset, expected.size());
  const auto [a, b] = std::mismatch(found.begin(), found.end(), expected.begin(), expected.end());
  *offset += static_cast<std::uint64_t>(a - found.begin());
  return b == expected.end();
}

}  // namespace

Directory read_directory(ByteView bytes) {
  Directory directory{.extent = find_directory(bytes)};
  std::vector<RawEntry> raws = read_central_directory(bytes, directory.extent);
  directory.prefix = take_names(raws, directory.extent.offset);
  std::sort(raws.begin(), raws.end(), [](const RawEntry& a, const RawEntry& b) {
    return a.entry.header_offset < b.entry.header_offset;
  });
  for (RawEntry& raw : raws) {
    check_local_header(raw, bytes.first(directory.extent.offset));
  }
  check_overlaps(raws);
  directory.entries.reserve(raws.size());
  for (RawEntry& raw : raws) {
    raw.entry.is_compressed = raw.method != 0;
    raw.entry.is_deflated = raw.method == kDeflate;
    raw.entry.stored_size = raw.compressed_size;
    if (raw.method != 0 && directory.compressed.empty()) directory.compressed = raw.name;
    directory.entries.push_back(std::move(raw.entry));
  }
  return directory;
}

bool is_canonical(const Directory& directory, ByteView bytes, std::uint64_t* offset) {
  std::uint64_t at = 0;
  const auto name_of = [&](const Entry& e) { return directory.prefix + "/" + e.record.name; };
  const auto is_same = [&] {
    for (const Entry& entry : directory.entries) {
      if (!matches(bytes, local_header(name_of(entry), at, entry.record.size), &at)) return false;
      if (at != entry.record.offset) return false;
      at += entry.record.size;
      if (!matches(bytes, data_descriptor(entry), &at)) return false;
    }
    DirectoryExtent extent{.offset = at, .entries = directory.entries.size()};
    for (const Entry& entry : directory.entries) {
      if (!matches(bytes, central_header(name_of(entry), entry), &at)) return false;
    }
    extent.size = at - extent.offset;
    return matches(bytes, end_of_directory(extent), &at) && at == bytes.size();
  };
  const bool same = is_same();
  *offset = at;
  return same;
}

}  // namespace cairn::zip
