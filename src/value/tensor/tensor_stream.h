// Streams a tensor's elements in row-major order, whatever their layout in the storage.
#pragma once

#include <cstddef>

#include "cairn/bytes.h"
#include "cairn/tensor.h"

namespace cairn {

inline constexpr std::size_t kTileBytes = std::size_t{32} << 20;

// Writes the elements to `sink`. `storage` holds the bytes of the tensor's storage. The caller
// provides them, so that a loaded storage is not loaded again for each of its tensors. Memory: at
// most `tile_bytes` for a tensor that is not contiguous, and 32 MiB of a mapped storage at a time.
// Throws CorruptError as TensorView::contiguous_bytes() does.
void write_elements(const TensorView& tensor, const SharedBytes& storage, ByteSink& sink,
                    std::size_t tile_bytes = kTileBytes);

}  // namespace cairn
