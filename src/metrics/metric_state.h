// Reading a metric's state, for messages that name the metric and the entry.
#pragma once

#include <torch/torch.h>

#include <string>

#include "cairn/value.h"

namespace cairn {

// The tensor under `key`, with the shape that torchmetrics gives it; MismatchError otherwise.
at::Tensor metric_entry(const std::string& metric, const Value& state, const char* key,
                        const Dims& shape);
// The same for a count.
std::int64_t metric_count(const std::string& metric, const Value& state, const char* key,
                          const Dims& shape);

}  // namespace cairn
