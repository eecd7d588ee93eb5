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
// As metric_entry(), for an accumulator of `dtype`, which the result has. Throws MismatchError,
// too, if whole numbers were saved for an accumulator of others, or others for one of whole
// numbers.
at::Tensor metric_sum(const std::string& metric, const Value& state, const char* key,
                      const Dims& shape, at::ScalarType dtype);

}  // namespace cairn
