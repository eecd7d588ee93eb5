// "--keep-best METRIC[:N]": which metric is meant, and whether low or high is good.
#pragma once

#include <set>
#include <string>

#include "checkpoint/folder/retention.h"

namespace cairn::cli {

// `text` is "NAME", "LABEL/NAME" or either with ":N" behind. `known` are the metrics of all
// checkpoints there are, "LABEL/NAME": a name alone is that of the one evaluator that has it, or
// else that of training. `mode` is "min", "max", or "auto": by the name. UsageError, saying what
// there is or which option helps, when it is not clear.
KeepBest parse_keep_best(const std::string& text, const std::set<std::string>& known,
                         const std::string& mode);

}  // namespace cairn::cli
