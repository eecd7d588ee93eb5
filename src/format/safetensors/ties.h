// One tensor under several names. A safetensors file holds it once; "__metadata__" has the other
// names. docs/formats/safetensors.md.
//
//   "cairn.tied": {"b.weight":"a.weight"}   JSON in a text: what cairn writes. All ties, no others.
//   "b.weight": "a.weight"                  safetensors.torch.save_model() and huggingface_hub
//
// A file without the first has ties of the second form. Other texts of the metadata mean nothing to
// a reader, also where one happens to be a tensor's name ("ss_output_name": "lora"). So a text of
// that form is a tie only when both names end in the same part: modules share their "weight".
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/format/safetensors.h"

namespace cairn::safetensors {

inline constexpr std::string_view kTiedKey = "cairn.tied";

// A name without a tensor of its own, and the name under which its tensor is written.
using Ties = std::vector<std::pair<std::string, std::string>>;

// The text of kTiedKey.
std::string tied_text(const Ties& ties);

// The ties that a file's metadata says. `has_tensor`: whether a tensor is written under that name.
// Passes over ties to tensors that are not there, and of names that have a tensor. UnsupportedError
// if there are too many for the size of the text.
Ties find_ties(const SafetensorsFile::Metadata& metadata,
               const std::function<bool(const std::string&)>& has_tensor);
Ties find_ties(const SafetensorsFile& file);

// The metadata without the entries that only say `ties`.
SafetensorsFile::Metadata without_ties(SafetensorsFile::Metadata metadata, const Ties& ties);

}  // namespace cairn::safetensors
