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

#include "core/seeded_hash.h"
#include "format/dcp/layout.h"

namespace cairn::dcp {
namespace {

// How long the zstd frame at the beginning of `bytes` is, when it is one that holds nothing: what
// PyTorch's extension leaves where a tensor would be.
std::optional<std::uint64_t> empty_zstd_frame(std::string_view bytes) {
  constexpr std::string_view kMagic = "\x28\xb5\x2f\xfd";
  constexpr std::string_view kLastBlockOfNothing("\1\0\0", 3);
  constexpr std::array<std::size_t, 4> kDictionaryBytes = {0, 1, 2, 4};
  constexpr std::array<std::size_t, 4> kContentBytes = {0, 2, 4, 8};
  if (!bytes.starts_with(kMagic) || bytes.size() <= kMagic.size()) return std::nullopt;
  const auto flags = static_cast<unsigned char>(bytes[kMagic.size()]);
  const bool is_single = (flags & 0x20U) != 0;  // then no byte for the window, but for the content
  const std::size_t content = kContentBytes.at(flags >> 6U) + (is_single && flags < 0x40 ? 1 : 0);
  const std::size_t header =
      kMagic.size() + 1 + (is_single ? 0 : 1) + kDictionaryBytes.at(flags & 3U) + content;
  if (bytes.size() < header || !bytes.substr(header).starts_with(kLastBlockOfNothing)) {
    return std::nullopt;
  }
  return header + kLastBlockOfNothing.size() + ((flags & 4U) != 0 ? 4 : 0);
}

// Where the safetensors file begins, by what the metadata says of one of its tensors; nullopt when
// the tensor is stored otherwise.
std::optional<std::uint64_t> begin_of_safetensors(const Item& item, const Chunk& chunk,
                                                  const SharedBytes& data) {
  const Location& location = chunk.location;
  const bool has_size_of_elements =
      item.dtype && !location.is_plain && location.size == box_bytes(chunk.box, *item.dtype);
  if (!has_size_of_elements) return std::nullopt;
  if (location.transforms.empty()) return location.offset;
  const auto frame = empty_zstd_frame(as_text(data.view).substr(location.offset));
  if (!frame) return std::nullopt;
  return location.offset + *frame;
}

// The safetensors file that begins at byte `begin` of a data file and goes to its end.
class Embedded {
 public:
  Embedded(const SharedBytes& data, const std::string& name, std::uint64_t begin)
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
  static SafetensorsFile open(const SharedBytes& data, const std::string& name,
                              std::uint64_t begin) {
    try {
      return {data.part(begin, data.view.size() - begin), name};
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

void locate_in_safetensors(Metadata& metadata,
                           const std::function<SharedBytes(std::string_view name)>& file) {
  struct Found {
    Item* item;
    Chunk* chunk;
  };
  struct DataFile {
    std::uint64_t begin = 0;  // the last that a tensor gives: the file is behind all their frames
    std::vector<Found> found;
  };
  std::map<std::string_view, DataFile> files;
  for (Item& item : metadata.items) {
    for (Chunk& chunk : item.chunks) {
      const std::string_view name = chunk.location.file;
      const auto begin = begin_of_safetensors(item, chunk, file(name));
      if (!begin) continue;
      DataFile& there = files[name];
      there.begin = std::max(there.begin, *begin);
      there.found.push_back({&item, &chunk});
    }
  }
  for (auto& [name, there] : files) {
    const Embedded tensors(file(name), std::string(name), there.begin);
    for (const Found& found : there.found) {
      tensors.locate(*found.item, *found.chunk);
    }
  }
}

}  // namespace cairn::dcp
