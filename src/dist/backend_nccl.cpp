// For a build with a libtorch for CUDA and NCCL's headers.
#ifndef USE_C10D_NCCL
#define USE_C10D_NCCL
#endif

#include <c10/core/DeviceGuard.h>
#include <torch/torch.h>

#include <chrono>
#include <exception>
#include <thread>
#include <vector>

#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "dist/backend.h"

namespace cairn::dist {
namespace {

// Turns off c10d's own error handling, which would end the process without naming the missing rank.
// Values that the user set stay.
void leave_errors_to_us() {
  for (const char* name : {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "NCCL_ASYNC_ERROR_HANDLING"})
    setenv(name, "0", /*overwrite=*/0);
}

// Waits for the end of the work. NCCL's own wait() only orders streams.
void wait_for(const WorkPtr& work) {
  while (!work->isCompleted())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (work->exception()) std::rethrow_exception(work->exception());
}

}  // namespace

c10::intrusive_ptr<Backend> open_nccl(const c10::intrusive_ptr<c10d::Store>& store,
                                      const Member& member, at::Device device) {
  leave_errors_to_us();
  const auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = member.timeout;
  auto backend =
      c10::make_intrusive<c10d::ProcessGroupNCCL>(store, member.rank, member.world_size, options);
  // NCCL connects with the first collective. Do a collective now, so that an error of connecting is
  // thrown here.
  const c10::DeviceGuard on(device);
  std::vector<at::Tensor> one = {at::ones({1}, at::TensorOptions(device))};
  wait_for(backend->allreduce(one, c10d::AllreduceOptions()));
  return backend;
}

}  // namespace cairn::dist
