// Reads the metrics that a Trainer with save_metrics put into a checkpoint.
#pragma once

#include <map>
#include <string>

#include "cairn/value.h"

namespace cairn {

// Returns the computed metrics, named "LABEL/NAME" with the evaluator's label, or "train/NAME". In
// a checkpoint they are in state/train_metrics and state/eval_metrics, as in Composer's. Empty if
// the checkpoint has none.
std::map<std::string, double> saved_metrics(const Value& checkpoint);

}  // namespace cairn
