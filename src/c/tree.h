// A tree of the C interface: a Value, and the memory of what was asked about it.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cairn/bytes.h"
#include "cairn/c.h"
#include "cairn/checkpoint/checkpoint.h"
#include "cairn/value.h"

#include "format/pickle/write/encode.h"
#include "io/memory/page_memory.h"

struct cairn_tree {
  cairn::Value value;
  // A loaded tree: where its storages are, and how they are verified.
  std::optional<cairn::Checkpoint> checkpoint = std::nullopt;
  cairn::Verify verify = cairn::Verify::kFull;
  // Made when they are first asked for.
  std::optional<cairn::pickle::Encoded> encoded = std::nullopt;
  std::vector<cairn_bytes> storages = {};
  std::vector<cairn_tensor> tensors = {};
  std::deque<std::string> names = {};  // of `tensors`
  // Where cairn_tree_read() and cairn_tree_map() put the storages.
  cairn::PageMemory memory = {};
  std::optional<cairn::SharedBytes> mapping = std::nullopt;
};

namespace cairn {

// The tree of an open checkpoint. Reads no tensor.
std::unique_ptr<cairn_tree> tree_of(const Checkpoint& checkpoint, Verify verify);

// The description of a checkpoint of this value: as a reader finds it in a file without one.
CheckpointInfo info_of(const Value& value);

// Encodes the tree, unless that was done before.
void encode_tree(cairn_tree& tree);

}  // namespace cairn
