// Converts the state of EMA that Composer before 0.13 saved to the present layout.
//
//  0.7 to 0.10.0    {"ema_model": {"parameters": [...], "buffers": [...]}, "training_model":
//                   likewise} by position, in the order of Python's model.parameters() and
//                   model.buffers(). It was saved only after averaging had started. The file's
//                   model always has the trained weights. "training_model" is a copy for
//                   evaluation, and stale.
//  0.10.1 to 0.12   {"ema_model": state_dict, "training_model": state_dict, "ema_weights_active",
//                   "ema_started"}. The set that is not in the file's model counts.
//  0.13 and newer   "ema_model" alone, with "named_parameters_dict" and "named_buffers_dict".
#pragma once

#include <string>
#include <vector>

#include "cairn/value.h"

namespace cairn {

// Names in the live model, each tensor once, in Python's order.
struct EmaNames {
  std::vector<std::string> parameters;
  std::vector<std::string> trained;  // those of `parameters` that EMA averages
  std::vector<std::string> buffers;
};

// Returns `state` in the present layout; unchanged unless it has an older one. Throws
// MismatchError, which names the release, if a list has another length than in the model.
Value migrated_ema_state(const Value& state, const EmaNames& names);

}  // namespace cairn
