#include "checkpoint/weights.h"

#include <algorithm>
#include <string>

namespace cairn {

const Value& weights_of(const Value& root) {
  for (const char* path : {"state/model", "model", "state_dict", "module"}) {
    const Value* found = find_path(root, path);
    if (found != nullptr && found->is_dict()) return *found;
  }
  return root;
}

Value script_state_dict(const Value& module) {
  Dict weights;
  for (const auto& [path, tensor] : tensors_of(module)) {
    std::string name = path;
    std::replace(name.begin(), name.end(), '/', '.');
    weights[name] = *tensor;
  }
  return weights;
}

}  // namespace cairn
