// Sends tensors of one device between some of the ranks.
//
//  1. The backend sends a message. The message is the tensor itself if the backend can reach its
//     memory (Gloo reaches host memory, NCCL reaches a GPU's). Otherwise the message is a copy in
//     host memory, page-locked if a GPU copies.
//  2. unpack() copies a received message back into the tensor, or to_device() copies it to the
//     device. Copies are ordered with the current stream's work.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "dist/backend.h"

namespace cairn::dist {

struct Channel {
  c10::intrusive_ptr<Backend> backend = {};
  at::Device device = at::kCPU;  // Where the tensors are.
  at::Device home = at::kCPU;    // Where the messages are: `device`, or the host.

  at::Tensor message_of(const at::Tensor& tensor) const;
  at::Tensor empty_message(std::int64_t bytes) const;
  void unpack(const at::Tensor& message, const at::Tensor& into) const;
  at::Tensor to_device(const at::Tensor& message) const;
  // Throws UsageError if the backend cannot add numbers of this type: MPI cannot add halves.
  void check_adds(at::ScalarType type) const;
  // Whether the end of a work must be polled, since NCCL's works do not notify. Works that send a
  // device's tensors through host memory are polled, too, so that there is only one way for
  // devices.
  bool is_polled() const { return !device.is_cpu(); }

 private:
  at::TensorOptions message_options() const;
};

}  // namespace cairn::dist
