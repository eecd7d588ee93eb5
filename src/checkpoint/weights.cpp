#include "checkpoint/weights.h"

namespace cairn {

const Value& weights_of(const Value& root) {
  for (const char* path : {"state/model", "model", "state_dict", "module"}) {
    const Value* found = find_path(root, path);
    if (found != nullptr && found->is_dict()) return *found;
  }
  return root;
}

}  // namespace cairn
