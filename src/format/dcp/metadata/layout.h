// Boxes of a tensor and the chunks that it is cut into.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "format/dcp/metadata/metadata.h"

namespace cairn::dcp {

inline constexpr std::size_t kMaxDims = 64;  // of a tensor: PyTorch's own limit

// Bytes of the elements; CorruptError when that overflows.
std::uint64_t box_bytes(const Box& box, DType dtype);
std::uint64_t tensor_bytes(const Item& item);

// CorruptError unless `box` lies in a tensor of `size`.
void check_inside(const Box& box, const Dims& size);

// What both have; nullopt when that is nothing. Tensors without dimensions have one element.
std::optional<Box> intersect(const Box& a, const Box& b);
// Whether that is anything.
bool overlap(const Box& a, const Box& b) noexcept;

// Sorts out the same chunk given twice (one rank's copy of what another has, too), and throws
// CorruptError unless the others fill the tensor without a hole and without an overlap: a save of
// PyTorch refuses both. UnsupportedError when that takes too long to find out, as no layout of
// ranks does.
void check_layout(Item& item);

// "(3, 0)"
std::string describe(const Dims& dims);

}  // namespace cairn::dcp
