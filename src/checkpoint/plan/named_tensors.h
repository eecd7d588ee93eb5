// A tree as a flat list of named tensors, for formats that hold nothing else.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cairn/format/safetensors.h"
#include "cairn/value.h"

namespace cairn {

// Names that begin with `from` begin with `to` instead. Of several rules the first that fits
// counts.
struct Rename {
  std::string from;
  std::string to;
};

// The tree with tensors' own keys, the last of their paths, renamed. What is one container at
// several places stays one, and is renamed once. UsageError when two entries of a dict end up with
// one key, or a rule fits no name.
Value rename_tensors(const Value& root, const std::vector<Rename>& rules);

struct NamedTensors {
  std::vector<NamedTensor> tensors;  // in tree order
  // What is no tensor and so is not among them, by path: "state/timestamp/epoch". Of what stands at
  // several places the first, so that they are no more than the tree has parts.
  std::vector<std::string> left_out;
  // Names that are no keys of the tree's, and what stands there: a key that is no text, or none.
  std::vector<std::pair<std::string, std::string>> renamed_keys;
  // Names of tensors that are the same as another one, and the name of that one, which is the
  // first of them by the alphabet.
  std::vector<std::pair<std::string, std::string>> tied;
};

// The keys on the way to a tensor joined by "." are its name: those of a flat state dict stay as
// they are. Each tensor once: of those that share all their elements one is kept. UsageError when
// two others end up with one name, or a rule fits no name.
NamedTensors name_tensors(const Value& root, const std::vector<Rename>& rules = {});

// A dict of tensors, in which those of `tied` have their other names, too. Names that it has, and
// those of tensors that it lacks, are passed over.
Value with_tied(const Value& tensors, const std::vector<std::pair<std::string, std::string>>& tied);

}  // namespace cairn
