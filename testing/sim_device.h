// A device of libtorch, in this process's memory, that does its work as late as it may.
//
// It is libtorch's "privateuseone": tensors can be made there, copied in every direction, filled
// and looked at through views. What is enqueued on a stream is done when somebody waits for that
// stream, or for an event that stands behind it, and not before: so who forgets to wait, or waits
// for the wrong thing, gets old bytes at every run, and not at one of thousands. Thread-safe.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <memory>

namespace cairn::testing {

// The first call makes libtorch know it.
c10::Device sim_device();
// Another one, whose streams are all one, as on devices that cannot copy beside computing.
c10::Device sim_device_without_side_streams();

// Enqueues work on this thread's current stream of sim_device().
void run_on_sim_device(std::function<void()> work);
// From now on everything can be computed there: what was enqueued before is done first, and the
// processor does the rest at once. Copies and fills stay late.
void let_sim_device_compute();
// In place, as Module::to(), which refuses devices that libtorch does not know.
void move_to_sim_device(const at::Tensor& tensor);
// While there is one: the device puts pieces together, as late as everything (at::cat).
class SimGathering {
 public:
  SimGathering();
  ~SimGathering();
  SimGathering(const SimGathering&) = delete;
  SimGathering& operator=(const SimGathering&) = delete;

  std::uint64_t count() const;  // of what was put together since

 private:
  struct Kernel;
  std::unique_ptr<Kernel> kernel_;
};
// From now on the n-th copy, counted from 1, fails when it is done.
void fail_sim_copy(std::uint64_t n);
// From now on, or no more: all streams but the default one do their work at once, as on a device
// that computes for long and copies beside it.
void hurry_sim_side_streams(bool hurry);
// How often somebody waited for a stream.
std::uint64_t sim_device_waits();

}  // namespace cairn::testing
