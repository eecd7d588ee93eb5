// Boxes of a tensor, and the chunks that a tensor is cut into.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "format/dcp/metadata/metadata.h"

namespace cairn::dcp {

inline constexpr std::size_t kMaxDims = 64;  // of a tensor: PyTorch's own limit

// Return the number of bytes of the elements. Throw CorruptError if that number overflows.
std::uint64_t box_bytes(const Box& box, DType dtype);
std::uint64_t tensor_bytes(const Item& item);

// Throws CorruptError unless `box` lies inside a tensor of `size`.
void check_inside(const Box& box, const Dims& size);

// Returns the box that both have in common; nullopt if that is empty. Tensors without dimensions
// have one element.
std::optional<Box> intersect(const Box& a, const Box& b);
// Returns whether the boxes have an element in common.
bool overlap(const Box& a, const Box& b) noexcept;

// Removes duplicates of a chunk, which ranks with the same data write. Throws CorruptError unless
// the remaining chunks fill the tensor without holes or overlaps, which PyTorch demands when it
// saves. Throws UnsupportedError if the check takes too long, which happens for no layout of ranks.
void check_layout(Item& item);

// "(3, 0)"
std::string describe(const Dims& dims);

}  // namespace cairn::dcp
