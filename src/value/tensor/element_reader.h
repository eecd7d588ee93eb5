// Reads elements of a tensor by their number in row-major order, whatever their layout in the
// storage. To go through all elements, use TensorPieces.
#pragma once

#include <span>

#include "cairn/tensor.h"

namespace cairn {

// The bytes of its storage that a tensor reaches: from its first element to its last; empty if it
// has no elements. Throws CorruptError if they lie outside the storage, as check_bounds() does.
struct Reach {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};
Reach reach_of(const TensorView& tensor);

// May be read from several threads at once.
class ElementReader {
 public:
  // Loads the part of the storage that the tensor reaches. Throws CorruptError if the tensor
  // reaches outside its storage. If several elements share a byte (quint4x2), counts bytes instead
  // of elements.
  explicit ElementReader(const TensorView& tensor);

  std::uint64_t numel() const { return numel_; }
  std::size_t item_size() const { return item_size_; }
  // Returns whether the elements are contiguous and in order. Only then may view() be called.
  bool is_contiguous() const { return is_contiguous_; }
  ByteView view(std::uint64_t first, std::uint64_t count) const;
  // Frees the memory that view() returned, as SharedBytes::release() does.
  void release(ByteView part) const { bytes_.release(part); }

  // Fills `out`, a whole number of elements, beginning with element number `first`.
  void read(std::uint64_t first, std::span<std::byte> out) const;
  // Returns one element of an int32 or int64 tensor.
  std::int64_t integer(std::uint64_t at) const;

 private:
  std::uint64_t place_of(std::uint64_t element) const;
  void read_strided(std::uint64_t first, std::span<std::byte> out) const;

  SharedBytes bytes_;  // beginning with the first element
  Dims shape_;
  Dims strides_;
  std::uint64_t numel_ = 0;
  std::size_t item_size_ = 1;
  bool is_contiguous_ = false;
};

}  // namespace cairn
