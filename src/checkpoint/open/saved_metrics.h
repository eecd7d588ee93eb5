// The metrics that a Trainer with save_metrics put into a checkpoint.
#pragma once

#include <map>
#include <string>

#include "cairn/value.h"

namespace cairn {

// The computed ones, "LABEL/NAME" with the evaluator's label, or "train/NAME": Composer's
// state/train_metrics and state/eval_metrics. Empty when the checkpoint holds none.
std::map<std::string, double> saved_metrics(const Value& checkpoint);

}  // namespace cairn
