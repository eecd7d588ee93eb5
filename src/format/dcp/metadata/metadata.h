// The metadata of a torch.distributed.checkpoint folder: which objects and tensors it holds, into
// which chunks each tensor is cut, and where in which file each chunk lies.
//
// `.metadata` is a pickle of PyTorch's own dataclasses. The machine that runs every other pickle
// (pickle/read/machine.h) runs this one, too, with additional rows for those classes: their
// instances become inert objects. parse_metadata() then takes the fields of these objects by name,
// and skips unknown fields.
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
  std::vector<std::string_view> transforms = {};  // decodings to apply, in this order
  bool is_plain = false;                          // only a tensor's elements, in row-major order
};

struct Chunk {
  Box box = {};
  Location location = {};
};

// A step from a container into it: the key of a dict, or the index of a list.
using PathPart = std::variant<std::string_view, std::int64_t>;

struct Item {
  std::string_view fqn = {};                  // its name in the folder: the path, joined by dots
  std::optional<DType> dtype = std::nullopt;  // nullopt: an object, not a tensor
  Dims size = {};
  std::vector<Chunk> chunks = {};   // an object has one, without a box
  std::vector<PathPart> path = {};  // its place in the tree; empty: at the top, under fqn
};

struct Metadata {
  std::vector<Item> items = {};         // in the file's order
  std::string_view version = {};        // empty before PyTorch 2.9
  std::vector<SharedBytes> files = {};  // own the texts above, which are views
};

// Parses a pickle. Throws CorruptError (with an offset, if there is one) and UnsupportedError.
// Checks everything that can be checked without the data files, except whether the chunks of a
// tensor fill it. check_layout() checks that once the metadata of all ranks is merged.
Metadata parse_metadata(SharedBytes pickle);

// Merges the metadata that every rank wrote for itself (use_collectives=False), in the order of
// ranks. The chunks of a tensor are put together. If several ranks have an object, the first is
// kept.
Metadata merge_metadata(std::vector<Metadata> ranks);

// Returns a name in quotes for a message, cut to 200 characters.
std::string in_quotes(std::string_view name);

}  // namespace cairn::dcp
