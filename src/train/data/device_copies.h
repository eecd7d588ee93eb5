// Batches on their way to a device.
//
//  1. Copies go to a stream of their own. On the stream that computes, a copy would begin only when
//     the device had computed everything before it, and then the device would wait for the copy.
//  2. The stream that computes waits for the copies, on the device. The host waits for nothing. The
//     host's part of a copy from memory that is not pinned ends before the call returns.
//  3. The allocator is told that the stream that computes uses the memory, too. So the memory is
//     not given to another batch before the device is done with it.
#pragma once

#include <ATen/core/Tensor.h>

#include "cairn/train/batch.h"

namespace cairn {

// Copies the tensors of the host to the device, for its current stream. A device that has only one
// stream copies on that. Thread-safe.
Batch to_device(Batch batch, const at::Device& device);

}  // namespace cairn
