// The state of EMA as Composers before 0.13 saved it, brought to the present layout.
//
//  0.7 to 0.10.0    {"ema_model": {"parameters": [...], "buffers": [...]}, "training_model":
//                   likewise} by position, in the order of Python's model.parameters() and
//                   model.buffers(). It was saved only once there was an average, and the file's
//                   model is always the one that was trained: "training_model" is a copy for
//                   evaluation, and stale.
//  0.10.1 to 0.12   {"ema_model": state_dict, "training_model": state_dict, "ema_weights_active",
//                   "ema_started"}. The set that counts is the one that is not in the file's model.
//  0.13 and newer   "ema_model" alone, with "named_parameters_dict" and "named_buffers_dict".
#pragma once

#include <string>
#include <vector>

#include "cairn/value.h"

namespace cairn {

// Of the live model, each tensor once, in Python's order.
struct EmaNames {
  std::vector<std::string> parameters;
  std::vector<std::string> trained;  // those of `parameters` that EMA averages
  std::vector<std::string> buffers;
};

// `state` in the present layout; unchanged when it is not of an older one. MismatchError, with the
// release, when a list is not as long as the model's.
Value migrated_ema_state(const Value& state, const EmaNames& names);

}  // namespace cairn
