// What a torch.distributed.checkpoint folder says of itself: which objects and tensors it holds,
// into which chunks each tensor is cut, and where in which file each of them lies.
//
// `.metadata` is a pickle of PyTorch's own dataclasses. It is run by the same machine as any other
// pickle, with rows of its own for those classes: they become inert objects, whose fields are then
// taken out here by name. Fields that are not known are passed over.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cairn/bytes.h"
#include "cairn/tensor.h"

namespace cairn::dcp {

// A rectangular part of a tensor.
struct Box {
  Dims offsets = {};
  Dims sizes = {};
  bool operator==(const Box&) const = default;
};

// Some bytes of a data file: a torch.save file, or plain elements.
struct Location {
  std::string_view file = {};  // a plain name inside the folder
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::vector<std::string_view> transforms = {};  // how to decode them first, in this order
  bool is_plain = false;  // a tensor's elements, in row-major order, and nothing else
};

struct Chunk {
  Box box = {};
  Location location = {};
};

// A step from a container into it: the key of a dict, or the index of a list.
using PathPart = std::variant<std::string_view, std::int64_t>;

struct Item {
  std::string_view fqn = {};  // the name under which it is stored: the path, joined by dots
  std::optional<DType> dtype = std::nullopt;  // nullopt: any object that is no tensor
  Dims size = {};
  std::vector<Chunk> chunks = {};   // of an object: one, without a box
  std::vector<PathPart> path = {};  // where in the tree it belongs; empty: at the top, under fqn
};

struct Metadata {
  std::vector<Item> items = {};         // in the file's order
  std::string_view version = {};        // empty before PyTorch 2.9
  std::vector<SharedBytes> files = {};  // what the texts above are views of
};

// CorruptError, with offset where there is one, and UnsupportedError. Everything that can be
// checked without the data files is checked, but for whether the chunks of a tensor fill it:
// check_layout() does that when the metadata of all ranks is together.
Metadata parse_metadata(SharedBytes pickle);

// One folder's metadata of what every rank wrote for itself (use_collectives=False), in the order
// of ranks: the chunks of a tensor are put together; of what several have, the first is kept.
Metadata merge_metadata(std::vector<Metadata> ranks);

// A name, in a message: in quotes, and not more than 200 characters of it.
std::string in_quotes(std::string_view name);

}  // namespace cairn::dcp
