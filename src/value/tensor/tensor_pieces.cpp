#include "value/tensor/tensor_pieces.h"

#include <algorithm>

#include "cairn/error.h"

namespace cairn {

void check_extent(const TensorView& tensor) {
  check_bounds(tensor);
  constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 30;
  constexpr std::uint64_t kMaxPieceRepetition = 4096;
  const std::uint64_t bytes = byte_size(tensor);
  if (bytes > kMaxBytes && bytes / kMaxPieceRepetition > tensor.storage->size()) {
    throw CorruptError("a tensor claims its " + std::to_string(tensor.storage->size()) +
                       " bytes to be " + std::to_string(bytes));
  }
}

namespace {

const TensorView& with_extent_checked(const TensorView& tensor) {
  check_extent(tensor);
  return tensor;
}

}  // namespace

TensorPieces::TensorPieces(const TensorView& tensor, std::size_t piece_elements)
    : elements_(with_extent_checked(tensor)), piece_elements_(piece_elements) {}

ByteView TensorPieces::next() {
  const std::uint64_t count = std::min<std::uint64_t>(elements_.numel() - done_, piece_elements_);
  if (!given_.empty()) elements_.release(given_);
  given_ = {};
  if (count == 0) return {};
  const std::uint64_t first = done_;
  done_ += count;
  if (elements_.is_contiguous()) return given_ = elements_.view(first, count);
  gathered_.resize(count * elements_.item_size());
  elements_.read(first, gathered_);
  return gathered_;
}

}  // namespace cairn
