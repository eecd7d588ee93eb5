// Tensors of one device on their way between some of the ranks.
//
//  1. What is given to the backend is a message: the tensor itself where the backend reaches its
//     memory (Gloo the host's, NCCL a GPU's), a copy in host memory otherwise, page-locked where a
//     GPU copies.
//  2. What came goes back into the tensor by unpack(), or is copied to the device by arrived().
//     Copies stand in the order of the current stream's work.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "dist/backend.h"

namespace cairn::dist {

struct Channel {
  c10::intrusive_ptr<Backend> backend = {};
  at::Device device = at::kCPU;  // of the tensors
  at::Device home = at::kCPU;    // of the messages: `device`, or the host

  at::Tensor message_of(const at::Tensor& tensor) const;
  at::Tensor empty_message(std::int64_t bytes) const;
  void unpack(const at::Tensor& message, const at::Tensor& into) const;
  at::Tensor arrived(const at::Tensor& message) const;
  // Whether numbers of this type can be added on the way: by MPI no halves. UsageError.
  void check_adds(at::ScalarType type) const;
  // Whether the end of a work is asked for: NCCL's works tell nobody of it. The same of what goes
  // through host memory, so that there is one way.
  bool is_polled() const { return !device.is_cpu(); }

 private:
  at::TensorOptions message_options() const;
};

}  // namespace cairn::dist
