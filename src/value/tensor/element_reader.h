// Any elements of a tensor by their number in row-major order, however they lie in its storage. To
// go through all of them, use TensorPieces.
#pragma once

#include <span>

#include "cairn/tensor.h"

namespace cairn {

// From the first to behind the last byte of its storage that an element of a tensor has; nothing of
// one without elements. CorruptError when that is outside, as check_bounds().
struct Reach {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};
Reach reach_of(const TensorView& tensor);

// Safe to read from several threads.
class ElementReader {
 public:
  // Loads what the tensor reaches of its storage. CorruptError when the tensor reaches outside it.
  // Where several elements share a byte (quint4x2), bytes are counted in their place.
  explicit ElementReader(const TensorView& tensor);

  std::uint64_t numel() const { return numel_; }
  std::size_t item_size() const { return item_size_; }
  // Whether the elements lie side by side, in their order; then view() shows them.
  bool is_contiguous() const { return is_contiguous_; }
  ByteView view(std::uint64_t first, std::uint64_t count) const;
  // Gives the memory of what view() showed back, as SharedBytes::release() does.
  void release(ByteView part) const { bytes_.release(part); }

  // Fills `out`, a whole number of elements, from the element number `first` on.
  void read(std::uint64_t first, std::span<std::byte> out) const;
  // One element of an int32 or int64 tensor.
  std::int64_t integer(std::uint64_t at) const;

 private:
  std::uint64_t place_of(std::uint64_t element) const;
  void read_strided(std::uint64_t first, std::span<std::byte> out) const;

  SharedBytes bytes_;  // from the first element on
  Dims shape_;
  Dims strides_;
  std::uint64_t numel_ = 0;
  std::size_t item_size_ = 1;
  bool is_contiguous_ = false;
};

}  // namespace cairn
