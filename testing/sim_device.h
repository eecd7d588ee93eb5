// A libtorch device in this process's memory that does its work as late as it may.
//
// It is libtorch's "privateuseone": tensors can be made on it, copied in every direction, filled,
// and read through views. Work that is enqueued on a stream is done only when a thread waits for
// that stream, or for an event recorded after the work. Code that forgets to wait, or waits for the
// wrong thing, gets old bytes in every run, not only in one run of thousands. Thread-safe.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <memory>

namespace cairn::testing {

// The first call registers the device with libtorch.
c10::Device sim_device();
// A second device that has only one stream, like devices that cannot copy while they compute.
c10::Device sim_device_without_side_streams();

// Enqueues work on this thread's current stream of sim_device().
void run_on_sim_device(std::function<void()> work);
// From now on, all operations work on the device. An operation first does the work enqueued
// earlier; then the CPU computes at once. Copies and fills stay late.
void let_sim_device_compute();
// Works in place, like Module::to(), which refuses devices that libtorch does not know.
void move_to_sim_device(const at::Tensor& tensor);
// While this object lives, the device can concatenate pieces (at::cat), as late as it does its
// other work.
class SimGathering {
 public:
  SimGathering();
  ~SimGathering();
  SimGathering(const SimGathering&) = delete;
  SimGathering& operator=(const SimGathering&) = delete;

  std::uint64_t count() const;  // Concatenations since this object was made.

 private:
  struct Kernel;
  std::unique_ptr<Kernel> kernel_;
};
// While this object lives, the device has kernels for the operators on lists of tensors that
// optimizers, clipping and unscaling call. A call of one is one call, not one for each tensor. Call
// let_sim_device_compute() before.
class SimLists {
 public:
  // `fused`: also libtorch's fused step of Adam.
  explicit SimLists(bool fused);
  ~SimLists();
  SimLists(const SimLists&) = delete;
  SimLists& operator=(const SimLists&) = delete;

 private:
  struct Kernels;
  std::unique_ptr<Kernels> kernels_;
};
// The n-th copy from now, counted from 1, fails when it is done.
void fail_sim_copy(std::uint64_t n);
// While this object lives, the device has no memory for a tensor of more than `bytes` bytes, as if
// other tensors had the rest: at::empty() throws c10::OutOfMemoryError.
class SimMemoryLimit {
 public:
  explicit SimMemoryLimit(std::uint64_t bytes);
  ~SimMemoryLimit();
  SimMemoryLimit(const SimMemoryLimit&) = delete;
  SimMemoryLimit& operator=(const SimMemoryLimit&) = delete;

  std::uint64_t failures() const;  // Since this object was made.
};
// If true, all streams except the default one do their work at once. A device that computes for
// long and copies meanwhile behaves like this.
void hurry_sim_side_streams(bool hurry);
// How often a thread waited for a stream, or for a number that the device computes.
std::uint64_t sim_device_waits();

}  // namespace cairn::testing
