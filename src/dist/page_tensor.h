// Memory for tensors that come and go with each unit of a sharded model.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/TensorOptions.h>

namespace cairn::dist {

// A contiguous tensor of zeros. On the CPU a large one has pages of its own, which the system has
// back when its storage ends: malloc would keep them, below what was allocated since. Small tensors
// and those of other devices have libtorch's memory.
at::Tensor page_zeros(at::IntArrayRef sizes, const at::TensorOptions& options);

// Gives the system what malloc keeps, which after a model was cut is most of it. For use now and
// then: it looks at all of the heap.
void give_back_heap();

}  // namespace cairn::dist
