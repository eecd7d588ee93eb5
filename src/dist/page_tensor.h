// Memory for tensors that come and go with each unit of a sharded model.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/TensorOptions.h>

namespace cairn::dist {

// Returns an uninitialized, contiguous tensor. A large one on the CPU has its own pages, which are
// released to the system when its storage is destroyed. Memory from malloc would stay in the heap,
// between chunks that live longer. So rows and their gradients also have their own pages. Small
// tensors, and tensors of other devices, use libtorch's memory.
at::Tensor page_tensor(at::IntArrayRef sizes, const at::TensorOptions& options);

// Releases the free memory of the heap to the system. This scans the whole heap: call it at most
// once per pass, and not for small models.
void give_back_heap();

}  // namespace cairn::dist
