#include "format/dcp/copy_box.h"

#include <algorithm>
#include <cstring>

namespace cairn::dcp {
namespace {

// The place of an element, counted in elements.
std::int64_t place(const Dims& index, const Dims& origin, const Dims& strides) {
  std::int64_t at = 0;
  for (std::size_t d = 0; d < index.size(); ++d) {
    at += (index[d] - origin[d]) * strides[d];
  }
  return at;
}

}  // namespace

void copy_overlap(const OpenChunk& chunk, const Box& wanted, std::span<std::byte> out) {
  const auto both = intersect(chunk.box, wanted);
  if (!both) return;
  const std::size_t item = item_size(chunk.tensor.dtype);
  const Dims out_strides = contiguous_strides(wanted.sizes);

  // The last dimensions in which both sides lie densely are one run.
  std::int64_t run = 1;
  std::size_t outer = both->sizes.size();
  while (outer > 0 && (both->sizes[outer - 1] == 1 ||
                       (chunk.tensor.strides[outer - 1] == run && out_strides[outer - 1] == run))) {
    run *= both->sizes[--outer];
  }

  const ByteView all = chunk.bytes.view;
  std::size_t first = all.size();
  std::size_t last = 0;
  const std::size_t run_bytes = static_cast<std::size_t>(run) * item;
  Dims index = both->offsets;
  while (true) {
    const auto from = static_cast<std::size_t>(
        chunk.tensor.storage_offset + place(index, chunk.box.offsets, chunk.tensor.strides));
    const auto to = static_cast<std::size_t>(place(index, wanted.offsets, out_strides));
    std::memcpy(out.subspan(to * item, run_bytes).data(),
                all.subspan(from * item, run_bytes).data(), run_bytes);
    first = std::min(first, from * item);
    last = std::max(last, from * item + run_bytes);
    std::size_t d = outer;
    while (d > 0 && ++index[d - 1] == both->offsets[d - 1] + both->sizes[d - 1]) {
      --d;
      index[d] = both->offsets[d];
    }
    if (d == 0) break;
  }
  chunk.bytes.release(all.subspan(first, last - first));
}

}  // namespace cairn::dcp
