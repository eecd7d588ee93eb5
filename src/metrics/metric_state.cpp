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
  const at::Tensor count = metric_entry(metric, state, key, shape);
  if (!at::isIntegralType(count.scalar_type(), /*includeBool=*/false)) {
    throw MismatchError(
        fmt::format("\"{}\" in the saved state of metric {} is not a whole number", key, metric));
  }
  return count.item<std::int64_t>();
}

}  // namespace cairn
