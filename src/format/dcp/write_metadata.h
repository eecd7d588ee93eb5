// Writing `.metadata`: docs/formats/dcp.md.
//
//  1. state_dict_metadata: what every item is, and into which chunks each tensor is cut.
//  2. planner_data: where in the tree each item belongs.
//  3. storage_data: where every chunk is stored.
//  4. storage_meta and version, when there is something to say in them.
//
// Steps 1 and 3 go through all chunks, so nobody has to hold what describes them. Of a tensor in
// several chunks the offsets are written once, and of equal sizes one: a pickle may refer to them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "format/dcp/metadata.h"

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

struct WrittenChunk {
  const Dims* offsets = nullptr;  // of a tensor's; so `sizes`
  const Dims* sizes = nullptr;
  std::string_view file = {};
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

// Everything that it points to lives until the metadata is written.
class MetadataContent {
 public:
  virtual ~MetadataContent() = default;

  virtual std::size_t items() const = 0;
  virtual WrittenItem item(std::size_t index) const = 0;
  // Calls `use` for WrittenItem::chunks chunks, each time in the same order.
  virtual void for_each_chunk(std::size_t index,
                              const std::function<void(const WrittenChunk&)>& use) const = 0;
  // What tells this save from others, as PyTorch's storage_meta has it; empty: nothing does.
  virtual std::string_view save_id() const { return {}; }
};

// The pickle, of protocol 2, as PyTorch since 2.4 reads it.
std::string write_metadata(const MetadataContent& content);

}  // namespace cairn::dcp
