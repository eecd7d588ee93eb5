// The elements of a tensor, a bounded piece at a time, so that what looks at every element needs
// neither a copy of the tensor nor its mapped pages all at once.
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
  // CorruptError when the tensor reaches outside its storage, or repeats its bytes absurdly often.
  // `piece_elements` > 0. Loads a lazy storage, once. Where several elements share a byte
  // (quint4x2), bytes are counted in their place.
  TensorPieces(const TensorView& tensor, std::size_t piece_elements);

  // The next elements in row-major order, little-endian: `piece_elements` of them, fewer at the
  // end, none after it. Valid until the next call, which gives the memory of a mapped file back.
  ByteView next();

 private:
  ElementReader elements_;
  std::uint64_t piece_elements_;
  std::uint64_t done_ = 0;
  std::vector<std::byte> gathered_;  // the piece, unless contiguous
  ByteView given_;                   // the piece before, when contiguous
};

// Throws CorruptError for what check_bounds() refuses, and for a tensor of more than 1 GiB that
// shows the same few bytes again and again: a file of 100 bytes may hold one of 2^60 elements.
void check_extent(const TensorView& tensor);

}  // namespace cairn
