// Steps several parameters together: on the CPU in one pass over their memory, on other devices as
// lists of tensors.
#pragma once

#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "train/fused/kernels.h"
#include "train/fused/list_step.h"
#include "train/fused/rounding.h"

namespace cairn::fused {

// Whether FusedStep takes a parameter: it, its gradient and its states are dense tensors of one
// device and type, with the same order of elements. On the CPU the type is float32, float64 or
// bfloat16, and the kernels have the bits of ATen's operators. Other devices have kernels for
// lists. `gradient`: undefined for a step without one.
bool can_fuse(const at::Tensor& parameter, const at::Tensor& gradient, const States& states);

Slice slice_of(const at::Tensor& parameter, const at::Tensor& gradient, const States& states);
bool rounds_once(const at::Tensor& parameter);

// `Step`: a step of arithmetic.h.
template <class Step>
class CpuStep {
 public:
  // The tensors can_fuse() and are on the CPU.
  void add(const Step& step, const at::Tensor& parameter, const at::Tensor& gradient,
           const States& states) {
    const Slice slice = slice_of(parameter, gradient, states);
    const std::int64_t start = total_;
    for (const Part& part : parts_of(parameter.scalar_type(), parameter.numel())) {
      jobs_.push_back({find_kernel<Step>(part.element, step.flags, rounds_once(parameter)), step,
                       slice, start, total_});
      total_ += part.size;
    }
  }

  // Steps what was added, on all threads of ATen.
  void run() const {
    at::parallel_for(0, total_, at::internal::GRAIN_SIZE,
                     [this](std::int64_t begin, std::int64_t end) {
                       auto job = std::ranges::upper_bound(jobs_, begin, {}, &Job::first) - 1;
                       while (begin < end) {
                         const bool is_last = job + 1 == jobs_.end();
                         const std::int64_t stop = is_last ? end : std::min(end, (job + 1)->first);
                         job->kernel(job->step, job->slice, begin - job->start, stop - job->start);
                         begin = stop;
                         ++job;
                       }
                     });
  }

 private:
  struct Job {
    Kernel<Step> kernel;
    Step step;
    Slice slice;
    // Numbers among the elements of all jobs.
    std::int64_t start;  // of the slice's first element
    std::int64_t first;  // of the job's
  };
  std::vector<Job> jobs_;
  std::int64_t total_ = 0;
};

template <class Step>
class FusedStep {
 public:
  // The tensors can_fuse().
  void add(const Step& step, const at::Tensor& parameter, const at::Tensor& gradient,
           const States& states) {
    if (parameter.is_cpu()) {
      cpu_.add(step, parameter, gradient, states);
    } else {
      lists_.add(step, parameter, gradient, states);
    }
  }
  void run() const {
    cpu_.run();
    lists_.run();
  }

 private:
  CpuStep<Step> cpu_;
  ListStep<Step> lists_;
};

}  // namespace cairn::fused
