// "--keep-best METRIC[:N]": finds the metric, and whether low or high is good.
#pragma once

#include <set>
#include <string>

#include "checkpoint/folder/retention.h"

namespace cairn::cli {

// `text` is "NAME" or "LABEL/NAME", with or without ":N" at the end. `known` has the metrics of all
// checkpoints, "LABEL/NAME". A NAME alone means that of the only evaluator that has it, or else
// that of training. `mode` is "min", "max", or "auto": by the name. Throws UsageError if it is not
// clear; the message says what exists or which option helps.
KeepBest parse_keep_best(const std::string& text, const std::set<std::string>& known,
                         const std::string& mode);

}  // namespace cairn::cli
