#include "format/dcp/safetensors_chunks.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "cairn/error.h"
#include "cairn/format/safetensors.h"

#include "core/hash/seeded_hash.h"
#include "format/dcp/metadata/layout.h"
#include "io/bytes/source_part.h"

namespace cairn::dcp {
namespace {

// Returns the length of the zstd frame at the beginning of `bytes`, if the frame is empty.
// PyTorch's extension writes an empty frame in place of a tensor.
std::optional<std::uint64_t> empty_zstd_frame(std::string_view bytes) {
  constexpr std::string_view kMagic = "\x28\xb5\x2f\xfd";
  constexpr std::string_view kLastBlockOfNothing("\1\0\0", 3);
  constexpr std::array<std::size_t, 4> kDictionaryBytes = {0, 1, 2, 4};
  constexpr std::array<std::size_t, 4> kContentBytes = {0, 2, 4, 8};
  if (!bytes.starts_with(kMagic) || bytes.size() <= kMagic.size()) return std::nullopt;
  const auto flags = static_cast<unsigned char>(bytes[kMagic.size()]);
  const bool is_single = (flags & 0x20U) != 0;  // then the header of the frame has no window byte
  const std::size_t content = kContentBytes.at(flags >> 6U) + (is_single && flags < 0x40 ? 1 : 0);
  const std::size_t header =
      kMagic.size() + 1 + (is_single ? 0 : 1) + kDictionaryBytes.at(flags & 3U) + content;
  if (bytes.size() < header || !bytes.substr(header).starts_with(kLastBlockOfNothing)) {
    return std::nullopt;
  }
  return header + kLastBlockOfNothing.size() + ((flags & 4U) != 0 ? 4 : 0);
}

constexpr std::size_t kMaxFrameBytes = 32;  // of an empty frame

// Returns whether the size in the metadata is that of the elements alone.
bool has_size_of_elements(const Item& item, const Location& location, const Box& box) {
  return item.dtype && !location.is_plain && location.size == box_bytes(box, *item.dtype);
}

struct Found {
  Item* item;
  Chunk* chunk;
};

// Returns where the safetensors file begins: after the last empty frame to which the metadata
// refers, or at the offset in the metadata if there are no such frames. Removes from `found` the
// chunks that are stored otherwise.
std::uint64_t begin_of_safetensors(const ByteSource& data, std::vector<Found>& found) {
  std::vector<std::byte> starts(found.size() * kMaxFrameBytes);
  std::vector<ByteSource::Range> ranges;
  const auto start_of = [&](const Found& each) {
    const auto index = static_cast<std::size_t>(&each - found.data());
    const std::uint64_t offset = each.chunk->location.offset;
    return std::span(starts).subspan(index * kMaxFrameBytes,
                                     std::min<std::uint64_t>(kMaxFrameBytes, data.size() - offset));
  };
  for (const Found& each : found) {
    if (each.chunk->location.transforms.empty()) continue;
    ranges.push_back({each.chunk->location.offset, start_of(each)});
  }
  if (!ranges.empty()) data.read(ranges);
  std::uint64_t begin = 0;
  std::vector<Found> kept;
  for (const Found& each : found) {
    const Location& location = each.chunk->location;
    const auto frame = location.transforms.empty()
                           ? std::optional<std::uint64_t>(0)
                           : empty_zstd_frame(as_text(ByteView(start_of(each))));
    if (!frame) continue;
    begin = std::max(begin, location.offset + *frame);
    kept.push_back(each);
  }
  found = std::move(kept);
  return begin;
}

// The safetensors file from byte `begin` of a data file up to its end.
class Embedded {
 public:
  Embedded(const std::shared_ptr<const ByteSource>& data, const std::string& name,
           std::uint64_t begin)
      : begin_(begin), file_(open(data, name, begin)) {
    for (const SafetensorsEntry& entry : file_.entries()) {
      entries_.emplace(entry.name, &entry);
    }
  }

  void locate(const Item& item, Chunk& chunk) const {
    Location& location = chunk.location;
    const auto found = entries_.find(item.fqn);
    if (found == entries_.end())
      fail(item, location, "the safetensors file there has no such name");
    const SafetensorsEntry& entry = *found->second;
    if (entry.dtype != *item.dtype || entry.shape != chunk.box.sizes) {
      fail(item, location,
           "expected " + std::string(name(*item.dtype)) + " " + describe(chunk.box.sizes) +
               ", found " + std::string(name(entry.dtype)) + " " + describe(entry.shape));
    }
    location.offset = begin_ + entry.offset;
    location.size = entry.size;
    location.transforms.clear();
    location.is_plain = true;
  }

 private:
  static SafetensorsFile open(const std::shared_ptr<const ByteSource>& data,
                              const std::string& name, std::uint64_t begin) {
    if (begin > data->size()) throw CorruptError(name + " ends too early", name, data->size());
    try {
      return SafetensorsFile(part_of(data, begin, data->size() - begin, name));
    } catch (const CorruptError& e) {
      const bool has_offset = e.offset() != CorruptError::kNoOffset;
      throw CorruptError(e.what(), name, begin + (has_offset ? e.offset() : 0));
    }
  }

  [[noreturn]] static void fail(const Item& item, const Location& location,
                                const std::string& what) {
    throw CorruptError(std::string(location.file) + ", item " + in_quotes(item.fqn) + ": " + what,
                       std::string(location.file), location.offset);
  }

  std::uint64_t begin_;
  SafetensorsFile file_;
  std::unordered_map<std::string_view, const SafetensorsEntry*, TextHash> entries_;
};

}  // namespace

void locate_in_safetensors(Metadata& metadata, const FilesByName& files) {
  std::map<std::string_view, std::vector<Found>> found_in;
  for (Item& item : metadata.items) {
    for (Chunk& chunk : item.chunks) {
      if (!has_size_of_elements(item, chunk.location, chunk.box)) continue;
      found_in[chunk.location.file].push_back({&item, &chunk});
    }
  }
  for (auto& [name, found] : found_in) {
    const std::shared_ptr<const ByteSource>& data = files.find(name)->second;
    const std::uint64_t begin = begin_of_safetensors(*data, found);
    if (found.empty()) continue;
    const Embedded tensors(data, std::string(name), begin);
    for (const Found& each : found) {
      tensors.locate(*each.item, *each.chunk);
    }
  }
}

}  // namespace cairn::dcp
