#include "checkpoint/open/formats/weights.h"

#include <string>

#include "value/value_path.h"

namespace cairn {

const Value& weights_of(const Value& root) {
  for (const char* path : {"state/model", "model", "state_dict", "module"}) {
    const Value* found = find_path(root, path);
    if (found != nullptr && found->is_dict() && !tensors_of(*found).empty()) return *found;
  }
  return root;
}

namespace {

// `prefix` is the path of `module` with a dot at its end. All levels share one text.
void add_weights(const Value& module, std::string& prefix, Dict& weights) {
  const std::size_t size = prefix.size();
  for (const auto& [key, value] : module.as_dict()) {
    prefix += key.is_str() ? key.as_str() : key_text(key);
    if (value.is_dict()) {
      prefix += '.';
      add_weights(value, prefix, weights);
    } else {
      weights.set(prefix, value);
    }
    prefix.resize(size);
  }
}

}  // namespace

Value script_state_dict(const Value& module) {
  Dict weights;
  std::string prefix;
  add_weights(module, prefix, weights);
  return weights;
}

}  // namespace cairn
