#include "value/tensor_pieces.h"

#include <algorithm>
#include <cstring>

#include "cairn/error.h"

namespace cairn {

void check_extent(const TensorView& tensor) {
  check_bounds(tensor);
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;
  constexpr std::uint64_t kMostRepetition = 4096;
  const std::uint64_t bytes = byte_size(tensor);
  if (bytes > kMostBytes && bytes / kMostRepetition > tensor.storage->size()) {
    throw CorruptError("a tensor shows " + std::to_string(tensor.storage->size()) + " bytes as " +
                       std::to_string(bytes));
  }
}

TensorPieces::TensorPieces(const TensorView& tensor, std::size_t piece_elements)
    : tensor_(tensor), item_size_(item_size(tensor.dtype)), piece_elements_(piece_elements) {
  check_extent(tensor_);
  left_ = byte_size(tensor_) / item_size_;  // packed elements are read by the byte
  offset_ = tensor_.storage_offset;
  if (left_ > 0) bytes_ = tensor_.storage->bytes();
  if (elements_per_byte(tensor.dtype) == 1 && !tensor_.is_contiguous())
    index_.assign(tensor_.shape.size(), 0);
}

ByteView TensorPieces::next() {
  const std::size_t count = std::min(left_, piece_elements_);
  if (!given_.empty()) bytes_.release(given_);
  given_ = {};
  left_ -= count;
  if (count == 0) return {};
  if (index_.empty()) {
    given_ =
        bytes_.view.subspan(static_cast<std::size_t>(offset_) * item_size_, count * item_size_);
    offset_ += static_cast<std::int64_t>(count);
    return given_;
  }
  gather(count);
  return gathered_;
}

// Runs along the last dimension, which is where strides of 1 usually are.
void TensorPieces::gather(std::size_t count) {
  gathered_.resize(count * item_size_);
  std::byte* out = gathered_.data();
  while (count > 0) {
    const auto rest = static_cast<std::size_t>(tensor_.shape.back() - index_.back());
    const std::size_t run = std::min(rest, count);
    const auto stride = static_cast<std::size_t>(tensor_.strides.back()) * item_size_;
    const std::byte* in = bytes_.view.data() + static_cast<std::size_t>(offset_) * item_size_;
    if (stride == item_size_) {
      std::memcpy(out, in, run * item_size_);
    } else {
      for (std::size_t i = 0; i < run; ++i) {
        std::memcpy(out + i * item_size_, in + i * stride, item_size_);
      }
    }
    out += run * item_size_;
    count -= run;
    advance(run);
  }
}

void TensorPieces::advance(std::size_t run) {
  auto step = static_cast<std::int64_t>(run);
  for (std::size_t d = index_.size(); d-- > 0; step = 1) {
    offset_ += step * tensor_.strides[d];
    index_[d] += step;
    if (index_[d] < tensor_.shape[d]) return;
    offset_ -= tensor_.strides[d] * tensor_.shape[d];
    index_[d] = 0;
  }
}

}  // namespace cairn
