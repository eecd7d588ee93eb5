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
  // A work's wait() orders it before what the current stream does next, and returns at once.
  bool waits_on_device() const { return !home.is_cpu(); }

 private:
  at::TensorOptions message_options() const;
};

}  // namespace cairn::dist
