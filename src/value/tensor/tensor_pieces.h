// Reads the elements of a tensor in pieces of limited size. So code that looks at every element
// needs neither a copy of the tensor nor all its mapped pages at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cairn/bytes.h"
#include "cairn/tensor.h"

#include "value/tensor/element_reader.h"

namespace cairn {

class TensorPieces {
 public:
  // Throws CorruptError if the tensor reaches outside its storage, or repeats its bytes absurdly
  // often. `piece_elements` must be positive. Loads a lazy storage, once. If several elements share
  // a byte (quint4x2), counts bytes instead of elements.
  TensorPieces(const TensorView& tensor, std::size_t piece_elements);

  // Returns the next elements in row-major order, little-endian: `piece_elements` of them, fewer at
  // the end, none after it. Valid until the next call, which gives back the memory of a mapped
  // file.
  ByteView next();

 private:
  ElementReader elements_;
  std::uint64_t piece_elements_;
  std::uint64_t done_ = 0;
  std::vector<std::byte> gathered_;  // the piece, unless contiguous
  ByteView given_;                   // the previous piece, if contiguous
};

// Throws CorruptError for a tensor that check_bounds() refuses. Also throws it for a tensor of more
// than 1 GiB that repeats the same few bytes: a file of 100 bytes may hold a tensor of 2^60
// elements.
void check_extent(const TensorView& tensor);

}  // namespace cairn
