// Groups ranges of a source, if each call of the source has a fixed cost.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "cairn/byte_source.h"

namespace cairn {

// Limits of one batch.
struct BatchSize {
  std::size_t ranges = 0;
  std::uint64_t bytes = 0;
};

// Calls `take` with the bytes of `ranges` in their order, in batches as large as `most` allows. A
// range that does not fit is cut where the batch is full. Empty ranges are left out.
template <class Take>
void for_each_batch(std::span<const ByteSource::Range> ranges, const BatchSize& most, Take take) {
  std::vector<ByteSource::Range> batch;
  std::uint64_t bytes = 0;
  for (ByteSource::Range range : ranges) {
    while (!range.into.empty()) {
      if (batch.size() == most.ranges || bytes == most.bytes) {
        take(std::exchange(batch, {}));
        bytes = 0;
      }
      const std::size_t size = std::min<std::uint64_t>(range.into.size(), most.bytes - bytes);
      batch.push_back({range.offset, range.into.first(size)});
      bytes += size;
      range = {range.offset + size, range.into.subspan(size)};
    }
  }
  if (!batch.empty()) take(std::move(batch));
}

}  // namespace cairn
