// Memory for tensors that come and go with each unit of a sharded model.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/TensorOptions.h>

namespace cairn::dist {

// Returns a contiguous tensor, not initialized. A large one on the CPU has pages of its own, which
// go back to the system when its storage ends. Memory of malloc would stay in the heap, between
// chunks that live longer. So rows and their gradients have pages of their own, too. Small tensors,
// and those of other devices, have libtorch's memory.
at::Tensor page_tensor(at::IntArrayRef sizes, const at::TensorOptions& options);

// Gives the free memory of the heap back to the system. It looks at all of the heap: call it once
// a pass at most, and not for small models.
void give_back_heap();

}  // namespace cairn::dist
