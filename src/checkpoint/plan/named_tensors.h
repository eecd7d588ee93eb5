// Turns a tree into a flat list of named tensors, for formats that hold only named tensors.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cairn/format/safetensors.h"
#include "cairn/value.h"

namespace cairn {

// Replaces `from` at the beginning of a name by `to`. If several rules fit a name, the first one
// counts.
struct Rename {
  std::string from;
  std::string to;
};

// Returns the tree with the last key on each tensor's path renamed. A container at several places
// is renamed once and stays one container. Throws UsageError if two entries of a dict would get one
// key, or if a rule fits no name.
Value rename_tensors(const Value& root, const std::vector<Rename>& rules);

struct NamedTensors {
  std::vector<NamedTensor> tensors;  // in tree order
  // Paths of values that are not tensors and so are not written: "state/timestamp/epoch". A value
  // at several places is listed only at the first place, so the list has at most as many entries as
  // the tree has parts.
  std::vector<std::string> left_out;
  // Names that are not keys of the tree, each with what the tree has there: a key that is not a
  // text, or no key.
  std::vector<std::pair<std::string, std::string>> renamed_keys;
  // Names of tensors that share all their elements with a written tensor, each with the name of the
  // written one: alphabetically the first of the names of these equal tensors.
  std::vector<std::pair<std::string, std::string>> tied;
};

// Names each tensor by the keys on its path, joined by ".". So the names of a flat state dict do
// not change. If tensors share all their elements, only one is kept. Throws UsageError if two
// different tensors would get one name, or if a rule fits no name.
NamedTensors name_tensors(const Value& root, const std::vector<Rename>& rules = {});

// Returns the dict `tensors` with the names of `tied` added. Skips a name that the dict already
// has, and a name whose tensor is missing.
Value with_tied(const Value& tensors, const std::vector<std::pair<std::string, std::string>>& tied);

}  // namespace cairn
