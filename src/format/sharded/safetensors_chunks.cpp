#include "format/sharded/safetensors_chunks.h"

#include <map>
#include <optional>
#include <string>
#include <unordered_map>

#include "cairn/error.h"
#include "cairn/format/safetensors.h"

#include "base/seeded_hash.h"
#include "format/sharded/layout.h"

namespace cairn::sharded {
namespace {

// The safetensors file that begins at byte `begin` of a data file and goes to its end.
class Embedded {
 public:
  Embedded(const SharedBytes& data, const Location& first)
      : begin_(first.offset), file_(open(data, first)) {
    for (const SafetensorsEntry& entry : file_.entries()) {
      entries_.emplace(entry.name, &entry);
    }
  }

  void locate(const Item& item, Chunk& chunk) const {
    Location& location = chunk.location;
    if (location.offset != begin_) {
      fail(item, location, "a second safetensors file in one data file, where PyTorch writes one");
    }
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
    location.is_plain = true;
  }

 private:
  static SafetensorsFile open(const SharedBytes& data, const Location& first) {
    const std::string name(first.file);
    try {
      return {data.part(first.offset, data.view.size() - first.offset), name};
    } catch (const CorruptError& e) {
      const bool has_offset = e.offset() != CorruptError::kNoOffset;
      throw CorruptError(e.what(), name, first.offset + (has_offset ? e.offset() : 0));
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

bool is_in_safetensors(const Item& item, const Chunk& chunk) {
  const Location& location = chunk.location;
  return item.dtype && !location.is_plain && location.transforms.empty() &&
         location.size == box_bytes(chunk.box, *item.dtype);
}

void locate_in_safetensors(Metadata& metadata,
                           const std::function<SharedBytes(std::string_view name)>& file) {
  std::map<std::string_view, Embedded> known;
  for (Item& item : metadata.items) {
    for (Chunk& chunk : item.chunks) {
      if (!is_in_safetensors(item, chunk)) continue;
      auto there = known.find(chunk.location.file);
      if (there == known.end()) {
        const std::string_view name = chunk.location.file;
        there = known.try_emplace(name, file(name), chunk.location).first;
      }
      there->second.locate(item, chunk);
    }
  }
}

}  // namespace cairn::sharded
