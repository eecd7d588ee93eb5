// One tensor with several names. A safetensors file holds it once, and "__metadata__" has the other
// names. docs/formats/safetensors.md.
//
//   "cairn.tied": {"b.weight":"a.weight"}   JSON in a text, as cairn writes it; lists all ties
//   "b.weight": "a.weight"                  safetensors.torch.save_model() and huggingface_hub
//
// Ties of the second form count only if a file lacks the first. Other texts of the metadata mean
// nothing to a reader, even if the key or value is a tensor's name ("ss_output_name": "lora"). So
// such a text is a tie only if both names end in the same part: modules share their "weight".
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

// Returns the text of kTiedKey.
std::string tied_text(const Ties& ties);

// Returns the ties in a file's metadata. `has_tensor` says whether a tensor is written under a
// name. Skips ties to tensors that do not exist, and ties of names that have a tensor of their own.
// Throws UnsupportedError if there are too many ties for the size of the text.
Ties find_ties(const SafetensorsFile::Metadata& metadata,
               const std::function<bool(const std::string&)>& has_tensor);
Ties find_ties(const SafetensorsFile& file);

// Returns the metadata without the entries of `ties`.
SafetensorsFile::Metadata without_ties(SafetensorsFile::Metadata metadata, const Ties& ties);

}  // namespace cairn::safetensors
