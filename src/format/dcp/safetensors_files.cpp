#include "format/dcp/safetensors_files.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <memory>

#include "cairn/error.h"

#include "core/checked.h"
#include "format/dcp/metadata/layout.h"
#include "format/safetensors/json_reader.h"
#include "io/bytes/source_part.h"

namespace cairn::dcp {
namespace {

using Offsets = std::map<std::string, Dims, std::less<>>;

Dims read_offsets(JsonReader& json) {
  Dims begin;
  json.array([&] {
    const std::uint64_t offset = json.unsigned_number();
    if (offset > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      json.fail("an offset of " + std::to_string(offset));
    }
    begin.push_back(static_cast<std::int64_t>(offset));
  });
  return begin;
}

// Parses {"w": {"saved_offsets": [2, 0]}}.
Offsets parse_sharding_info(std::string_view text) {
  Offsets offsets;
  JsonReader json(text, kShardingKey);
  json.object([&](std::string fqn) {
    Dims& begin = offsets[std::move(fqn)];
    json.object([&](const std::string& key) {
      if (key != "saved_offsets") return json.skip();
      begin = read_offsets(json);
    });
  });
  json.end();
  return offsets;
}

// Returns an empty map if the file has no such metadata.
Offsets offsets_in(const SafetensorsFile& file) {
  const std::string* info = file.find_metadata(kShardingKey);
  return info != nullptr ? parse_sharding_info(*info) : Offsets{};
}

class Collector {
 public:
  void add(const std::string& name, const std::shared_ptr<const ByteSource>& source) {
    const SafetensorsFile file(part_of(source, 0, source->size(), name));
    const Offsets offsets = offsets_in(file);
    const std::string& kept_name = texts_->emplace_back(name);
    for (const SafetensorsEntry& entry : file.entries()) {
      const auto found = offsets.find(entry.name);
      const Dims begin = found != offsets.end() ? found->second : Dims(entry.shape.size(), 0);
      add_part(item_of(entry), {begin, entry.shape},
               {.file = kept_name, .offset = entry.offset, .size = entry.size, .is_plain = true});
    }
  }

  Metadata take() && {
    metadata_.files.push_back({{}, texts_});
    return std::move(metadata_);
  }

 private:
  Item& item_of(const SafetensorsEntry& entry) {
    const auto known = index_.find(entry.name);
    if (known == index_.end()) {
      index_.emplace(entry.name, metadata_.items.size());
      return metadata_.items.emplace_back(Item{.fqn = texts_->emplace_back(entry.name),
                                               .dtype = entry.dtype,
                                               .size = Dims(entry.shape.size(), 0)});
    }
    Item& item = metadata_.items[known->second];
    if (item.dtype != entry.dtype || item.size.size() != entry.shape.size()) {
      throw CorruptError(in_quotes(entry.name) +
                         " has a different dtype or number of dimensions in this file");
    }
    return item;
  }

  static void add_part(Item& item, Box box, Location location) {
    if (box.offsets.size() != box.sizes.size()) {
      throw CorruptError(in_quotes(item.fqn) + " has " + std::to_string(box.sizes.size()) +
                         " dimensions and begins at " + describe(box.offsets));
    }
    for (std::size_t d = 0; d < box.sizes.size(); ++d) {
      item.size[d] = std::max(item.size[d], checked_add(box.offsets[d], box.sizes[d]));
    }
    if (location.size == 0) return;
    item.chunks.push_back({std::move(box), std::move(location)});
  }

  std::shared_ptr<std::deque<std::string>> texts_ = std::make_shared<std::deque<std::string>>();
  std::map<std::string, std::size_t, std::less<>> index_;  // into metadata_.items
  Metadata metadata_;
};

}  // namespace

bool is_shard_name(std::string_view name) {
  return name.starts_with("shard-") && name.find("-model-") != std::string_view::npos &&
         name.ends_with(".safetensors");
}

bool has_nonzero_offsets(const SafetensorsFile& file) {
  const Offsets offsets = offsets_in(file);
  return std::any_of(offsets.begin(), offsets.end(), [](const auto& tensor) {
    const Dims& begin = tensor.second;
    return std::any_of(begin.begin(), begin.end(), [](std::int64_t at) { return at != 0; });
  });
}

Metadata metadata_of_shards(
    std::span<const std::pair<std::string, std::shared_ptr<const ByteSource>>> files) {
  Collector collector;
  for (const auto& [name, source] : files) {
    try {
      collector.add(name, source);
    } catch (const CorruptError& e) {
      std::string what = e.what();
      if (!what.starts_with(name)) what.insert(0, name + ": ");
      throw CorruptError(what, name, e.offset());
    }
  }
  return std::move(collector).take();
}

}  // namespace cairn::dcp
