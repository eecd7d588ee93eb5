// Finds the weights in a checkpoint.
#pragma once

#include "cairn/value.h"

namespace cairn {

// Returns the model's part of `root`: the first of "state/model" (Composer), "model", "state_dict"
// and "module" (other trainers) that is a dict with a tensor in it. The tensor is required because
// "model" may also hold the model's options. Returns `root` itself if there is no such dict. The
// result lives as long as `root`.
const Value& weights_of(const Value& root);

// Returns the weights of nested dicts, one dict for each module, under the names that Python's
// state_dict() gives: {"layers": {"0": {"weight"}}} becomes {"layers.0.weight"}.
Value script_state_dict(const Value& module);

}  // namespace cairn
