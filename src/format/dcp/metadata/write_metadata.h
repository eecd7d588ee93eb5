// Writing `.metadata`: docs/formats/dcp.md.
//
//  1. state_dict_metadata: what every item is, and into which chunks each tensor is cut.
//  2. planner_data: where in the tree each item belongs.
//  3. storage_data: where every chunk is stored.
//  4. storage_meta and version, when there is something to say in them.
//
// Step 1 goes through all chunks and notes eight bytes of each for step 3. So nobody has to hold
// what describes ten million chunks, nor the gigabyte that is written. The offsets of a chunk are
// written once if its tensor has several, and so are equal sizes: a pickle may refer to them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cairn/bytes.h"

#include "format/dcp/metadata/metadata.h"

namespace cairn::dcp {

inline constexpr const char* kMetadataFile = ".metadata";

struct WrittenItem {
  std::string_view fqn = {};
  const std::vector<std::variant<std::string, std::int64_t>>* path = nullptr;
  std::optional<DType> dtype = std::nullopt;  // nullopt: an object
  bool requires_grad = false;
  const Dims* size = nullptr;  // of a tensor
  std::size_t chunks = 1;
};

// A part of a tensor, or an object: then without offsets and sizes.
struct WrittenChunk {
  std::span<const std::int64_t> offsets = {};
  std::span<const std::int64_t> sizes = {};
  std::uint32_t number = 0;  // MetadataContent::get_places() knows it by that
};

struct WrittenPlace {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::uint32_t file = 0;  // see MetadataContent::file_name()
};

// Everything that it points to lives until the metadata is written.
class MetadataContent {
 public:
  virtual ~MetadataContent() = default;

  virtual std::size_t items() const = 0;
  virtual WrittenItem item(std::size_t index) const = 0;
  // Calls `use` for WrittenItem::chunks chunks.
  virtual void for_each_chunk(std::size_t index,
                              const std::function<void(const WrittenChunk&)>& use) const = 0;
  // Where the chunks of these numbers are stored: as many as `places` has room for.
  virtual void get_places(std::span<const std::uint32_t> numbers,
                          std::span<WrittenPlace> places) const = 0;
  virtual std::size_t files() const = 0;
  virtual std::string_view file_name(std::uint32_t file) const = 0;
  // What tells this save from others, as PyTorch's storage_meta has it; empty: nothing does.
  virtual std::string_view save_id() const { return {}; }
};

// The pickle, of protocol 2, as PyTorch since 2.4 reads it: the same bytes each time, in pieces of
// about 1 MiB.
void write_metadata(const MetadataContent& content, ByteSink& out);
// About how many bytes that gives, and rather more.
std::size_t metadata_bytes(const MetadataContent& content);
std::string write_metadata(const MetadataContent& content);

}  // namespace cairn::dcp
