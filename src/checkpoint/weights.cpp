#include "checkpoint/weights.h"

#include <string>

#include "base/value_path.h"

namespace cairn {

const Value& weights_of(const Value& root) {
  for (const char* path : {"state/model", "model", "state_dict", "module"}) {
    const Value* found = find_path(root, path);
    if (found != nullptr && found->is_dict()) return *found;
  }
  return root;
}

namespace {

void add_weights(const Value& module, const std::string& prefix, Dict& weights) {
  for (const auto& [key, value] : module.as_dict()) {
    const std::string name = prefix + (key.is_str() ? key.as_str() : key_text(key));
    if (value.is_dict()) {
      add_weights(value, name + ".", weights);
    } else {
      weights.set(name, value);
    }
  }
}

}  // namespace

Value script_state_dict(const Value& module) {
  Dict weights;
  add_weights(module, "", weights);
  return weights;
}

}  // namespace cairn
