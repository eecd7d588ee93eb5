#include "metrics/metric_state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cairn/error.h"
#include "cairn/train/state_dict.h"

namespace cairn {

at::Tensor metric_entry(const std::string& metric, const Value& state, const char* key,
                        const Dims& shape) {
  const Value* entry = state.is_dict() ? state.find(key) : nullptr;
  if (entry == nullptr || !entry->is_tensor()) {
    throw MismatchError(
        fmt::format("the saved state of metric {} has no tensor \"{}\"", metric, key));
  }
  const TensorView& view = entry->as_tensor();
  if (view.shape != shape) {
    throw MismatchError(fmt::format(
        "\"{}\" in the saved state of metric {} has shape [{}], expected [{}]: it was saved by "
        "another metric or with other options",
        key, metric, fmt::join(view.shape, ", "), fmt::join(shape, ", ")));
  }
  return tensor_of(view);
}

std::int64_t metric_count(const std::string& metric, const Value& state, const char* key,
                          const Dims& shape) {
  return metric_sum(metric, state, key, shape, at::kLong).item<std::int64_t>();
}

at::Tensor metric_sum(const std::string& metric, const Value& state, const char* key,
                      const Dims& shape, at::ScalarType dtype) {
  const at::Tensor sum = metric_entry(metric, state, key, shape);
  const bool is_whole = at::isIntegralType(sum.scalar_type(), /*includeBool=*/false);
  if (is_whole != at::isIntegralType(dtype, /*includeBool=*/false)) {
    throw MismatchError(fmt::format("\"{}\" in the saved state of metric {} is {} whole number",
                                    key, metric, is_whole ? "a" : "not a"));
  }
  return sum.to(dtype);
}

}  // namespace cairn
