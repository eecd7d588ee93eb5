// Tensors that are a part of a larger one: TensorView::part.
#pragma once

#include <string>

#include "cairn/tensor.h"

namespace cairn {

// Returns "(2, 3) at (4, 0) of (8, 3)". `tensor` must be a part.
std::string part_text(const TensorView& tensor);

// Throws UnsupportedError unless `tensor` is a whole tensor. The message says that `what` ("a
// torch.save file") cannot hold a part.
void check_is_whole(const TensorView& tensor, const char* what);

// Returns whether both are the same part, or both are whole tensors (`part` is null).
bool equal_parts(const TensorView& a, const TensorView& b);

}  // namespace cairn
