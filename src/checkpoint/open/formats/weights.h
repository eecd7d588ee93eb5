// Where the weights are in a checkpoint.
#pragma once

#include "cairn/value.h"

namespace cairn {

// The model's part of `root`: "state/model" (Composer), "model", "state_dict" or "module" (other
// trainers), the first that is a dict with a tensor in it: a "model" may be the model's options.
// `root` itself when it has none of them. Lives as long as `root`.
const Value& weights_of(const Value& root);

// The names that Python's state_dict() has for the weights in nested dicts, one for each module:
// {"layers": {"0": {"weight"}}} gives {"layers.0.weight"}.
Value script_state_dict(const Value& module);

}  // namespace cairn
