// Reads a metric's state, with messages that name the metric and the entry.
#pragma once

#include <torch/torch.h>

#include <string>

#include "cairn/value.h"

namespace cairn {

// The tensor under `key`. Throws MismatchError unless it has torchmetrics' shape.
at::Tensor metric_entry(const std::string& metric, const Value& state, const char* key,
                        const Dims& shape);
// As metric_entry(), for a count.
std::int64_t metric_count(const std::string& metric, const Value& state, const char* key,
                          const Dims& shape);

}  // namespace cairn
