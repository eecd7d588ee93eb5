#include "checkpoint/open/run_options.h"

namespace cairn {

std::vector<std::pair<std::string, std::string>> run_options(const Value& checkpoint) {
  std::vector<std::pair<std::string, std::string>> options;
  const Value* metadata = find_path(checkpoint, "state/metadata");
  const Value* found =
      metadata != nullptr && metadata->is_dict() ? metadata->find(kRunOptions) : nullptr;
  if (found == nullptr || !found->is_dict()) return options;
  for (const auto& [name, text] : found->as_dict()) {
    if (name.is_str() && text.is_str()) options.emplace_back(name.as_str(), text.as_str());
  }
  return options;
}

}  // namespace cairn
