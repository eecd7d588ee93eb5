// "--keep-best METRIC[:N]": finds the metric, and whether low or high is good.
#pragma once

#include <set>
#include <string>

#include "checkpoint/folder/retention.h"

namespace cairn::cli {

// `text` is "NAME" or "LABEL/NAME", with or without ":N" at the end. `known` has the metrics of all
// checkpoints, "LABEL/NAME". A NAME alone means the metric of the only evaluator that has one of
// this name. If no evaluator has one, it means the metric of training. `mode` is "min", "max", or
// "auto": by the name. Throws UsageError if the metric or the mode is not clear; the message says
// which metrics exist or which option helps.
BestRule parse_keep_best(const std::string& text, const std::set<std::string>& known,
                         const std::string& mode);

}  // namespace cairn::cli
