#include "checkpoint/open/run_options.h"

namespace cairn {

RunOptions run_options(const Value& checkpoint) {
  const Value* metadata = find_path(checkpoint, "state/metadata");
  const Value* found =
      metadata != nullptr && metadata->is_dict() ? metadata->find(kRunOptions) : nullptr;
  if (found == nullptr || !found->is_dict()) return {};
  RunOptions options;
  for (const auto& [name, text] : found->as_dict()) {
    if (!name.is_str() || !text.is_str()) return {};
    options.emplace_back(name.as_str(), text.as_str());
  }
  return options;
}

RunOptions take_run_options(Value& checkpoint) {
  RunOptions options = run_options(checkpoint);
  if (options.empty()) return options;
  Dict metadata = find_path(checkpoint, "state/metadata")->as_dict();
  metadata.erase(kRunOptions);
  Dict state = checkpoint.at("state").as_dict();
  state.set("metadata", std::move(metadata));
  Dict root = checkpoint.as_dict();
  root.set("state", std::move(state));
  checkpoint = std::move(root);
  return options;
}

}  // namespace cairn
