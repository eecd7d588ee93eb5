// Names of tensors in Hugging Face's files and in a module, by rules with wildcards.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/models/huggingface.h"

namespace cairn {

// Returns the text that each "*" of `pattern` stands for in `name`, nullopt if `pattern` does not
// fit. A "*" is any text without a dot, and not empty.
std::optional<std::vector<std::string>> match_name(std::string_view pattern, std::string_view name);

// `pattern` with `parts` in place of its "*".
std::string fill_name(std::string_view pattern, const std::vector<std::string>& parts);

struct MappedName {
  std::string name;
  bool is_transposed = false;
};

MappedName name_in_module(const HuggingFaceOptions& options, const std::string& name_in_file);
MappedName name_in_file(const HuggingFaceOptions& options, const std::string& name_in_module);
bool is_ignored(const HuggingFaceOptions& options, const std::string& name_in_file);

}  // namespace cairn
