// Tensors that are a part of a larger one: TensorView::part.
#pragma once

#include <string>

#include "cairn/tensor.h"

namespace cairn {

// "(2, 3) at (4, 0) of (8, 3)". `tensor` is a part.
std::string part_text(const TensorView& tensor);

// UnsupportedError, naming what cannot hold it ("a torch.save file"), unless it is a whole tensor.
void check_is_whole(const TensorView& tensor, const char* what);

// Null is whole, and equal to no part.
bool equal_parts(const TensorView& a, const TensorView& b);

}  // namespace cairn
