#include "value/strided.h"

#include <cstring>

namespace cairn {

void scatter(const std::byte* elements, const StridedPlace& to) noexcept {
  if (to.shape.empty()) {
    std::memcpy(to.first, elements, to.item_size);
    return;
  }
  std::size_t behind =
      to.item_size;  // bytes of all elements at one position of the first dimension
  for (const std::int64_t size : to.shape.subspan(1)) {
    behind *= static_cast<std::size_t>(size);
  }
  const auto step = to.strides.front() * static_cast<std::int64_t>(to.item_size);
  StridedPlace inner{to.first, to.shape.subspan(1), to.strides.subspan(1), to.item_size};
  for (std::int64_t i = 0; behind > 0 && i < to.shape.front(); ++i) {
    scatter(elements, inner);
    elements += behind;
    inner.first += step;
  }
}

}  // namespace cairn
