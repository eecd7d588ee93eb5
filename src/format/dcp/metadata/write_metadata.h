// Writes `.metadata`: docs/formats/dcp.md.
//
//  1. state_dict_metadata: what every item is, and into which chunks each tensor is cut.
//  2. planner_data: where in the tree each item belongs.
//  3. storage_data: where every chunk is stored.
//  4. storage_meta and version, if there is a save_id().
//
// Step 1 goes through all chunks and keeps eight bytes of each for step 3. So neither the
// description of ten million chunks nor the gigabyte that is written has to be in memory. If a
// tensor has several chunks, the offsets of each are written once and referred to later; sizes
// equal to those of the previous chunk are referred to, too.
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

// A part of a tensor, or an object, which has no offsets and sizes.
struct WrittenChunk {
  std::span<const std::int64_t> offsets = {};
  std::span<const std::int64_t> sizes = {};
  std::uint32_t number = 0;  // for MetadataContent::get_places()
};

struct WrittenPlace {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::uint32_t file = 0;  // see MetadataContent::file_name()
};

// Everything that the content points to must live until the metadata is written.
class MetadataContent {
 public:
  virtual ~MetadataContent() = default;

  virtual std::size_t items() const = 0;
  virtual WrittenItem item(std::size_t index) const = 0;
  // Calls `use` once for each of the WrittenItem::chunks chunks.
  virtual void for_each_chunk(std::size_t index,
                              const std::function<void(const WrittenChunk&)>& use) const = 0;
  // Sets `places` to where the chunks with these numbers are stored. Both spans have the same size.
  virtual void get_places(std::span<const std::uint32_t> numbers,
                          std::span<WrittenPlace> places) const = 0;
  virtual std::size_t files() const = 0;
  virtual std::string_view file_name(std::uint32_t file) const = 0;
  // The id of this save, as PyTorch's storage_meta has it; empty if there is none.
  virtual std::string_view save_id() const { return {}; }
};

// Writes the pickle, of protocol 2, as PyTorch since 2.4 reads it. The bytes are the same each
// time. Writes in pieces of about 256 KiB.
void write_metadata(const MetadataContent& content, ByteSink& out);
// Estimates the size of the pickle, rather too large than too small.
std::size_t metadata_bytes(const MetadataContent& content);
std::string write_metadata(const MetadataContent& content);

}  // namespace cairn::dcp
