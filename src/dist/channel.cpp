#include "dist/channel.h"

#include <torch/torch.h>

#include "cairn/error.h"

#include "dist/page_tensor.h"

namespace cairn::dist {

at::TensorOptions Channel::message_options() const {
  return at::TensorOptions(home).pinned_memory(home.is_cpu() && device.is_cuda());
}

at::Tensor Channel::message_of(const at::Tensor& tensor) const {
  if (tensor.device() == home) return tensor.contiguous();
  const at::Tensor message =
      at::empty(tensor.sizes(), message_options().dtype(tensor.scalar_type()));
  message.copy_(tensor);
  return message;
}

at::Tensor Channel::empty_message(std::int64_t bytes) const {
  return page_tensor({bytes}, message_options().dtype(at::kByte));
}

void Channel::unpack(const at::Tensor& message, const at::Tensor& into) const {
  if (message.is_same(into)) return;
  // Blocking: the message may be freed before an asynchronous copy has read it.
  into.copy_(message, /*non_blocking=*/false);
}

at::Tensor Channel::to_device(const at::Tensor& message) const { return message.to(device); }

void Channel::check_adds(at::ScalarType type) const {
  if (backend == nullptr || backend->getBackendName() != "mpi") return;
  if (type == at::kFloat || type == at::kDouble || at::isIntegralType(type, false)) return;
  throw UsageError(std::string("c10d's MPI adds no tensors of type ") + c10::toString(type) +
                   ": train in float32, or leave CAIRN_CPU_BACKEND out");
}

}  // namespace cairn::dist
