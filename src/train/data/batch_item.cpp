#include "train/data/batch_item.h"

#include <fmt/format.h>

#include "cairn/error.h"

namespace cairn {

at::Tensor& batch_item(Batch& batch, const BatchKey& key) {
  if (const auto* name = std::get_if<std::string>(&key)) return batch[*name];
  return batch[static_cast<std::size_t>(std::get<std::int64_t>(key))];
}

void check_batch_key(const std::string& where, const BatchKey& key) {
  const auto* position = std::get_if<std::int64_t>(&key);
  if (position == nullptr || *position >= 0) return;
  throw UsageError(fmt::format("{} must be 0 or more, or a name, found {}", where, *position));
}

}  // namespace cairn
