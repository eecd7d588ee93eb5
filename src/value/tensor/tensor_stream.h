// A tensor's elements in row-major order, streamed, however the tensor lies in its storage.
#pragma once

#include <cstddef>

#include "cairn/bytes.h"
#include "cairn/tensor.h"

namespace cairn {

inline constexpr std::size_t kTileBytes = std::size_t{32} << 20;

// Writes the elements to `sink`. `storage` are the bytes of the tensor's storage, which the caller
// has, so that one that is loaded need not be loaded again for each of its tensors. Memory: at most
// `tile_bytes` for one that is not contiguous, and 32 MiB of a mapped storage at a time.
// CorruptError as TensorView::contiguous_bytes().
void write_elements(const TensorView& tensor, const SharedBytes& storage, ByteSink& sink,
                    std::size_t tile_bytes = kTileBytes);

}  // namespace cairn
