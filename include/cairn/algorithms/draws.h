// Draws: the random numbers of algorithms.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "cairn/export.h"

namespace CAIRN_PUBLIC cairn {

// Draws from torch's CPU generator, whose state is in every checkpoint. So a resumed run draws what
// the run would have drawn without the interruption. Composer draws most of these numbers from
// NumPy's generator, so a run here has other numbers than in Python.
//
// Derive from Draws to replay numbers that another program has drawn. Called on the training
// thread. Throws UsageError for arguments from which nothing can be drawn.
class Draws {
 public:
  virtual ~Draws() = default;

  // A number in [0, 1], distributed as Beta(alpha, alpha); alpha > 0 (numpy.random.beta).
  virtual double beta(double alpha);
  // An integer in [low, high), all equally likely (numpy.random.randint, torch.randint).
  virtual std::int64_t integer(std::int64_t low, std::int64_t high);
  // The numbers from 0 to size - 1 in random order: int64, on the CPU (torch.randperm).
  virtual at::Tensor permutation(std::int64_t size);
  // `count` different positions in `weights`, a vector. One after another is drawn from those that
  // are left, with a likelihood proportional to its weight. int64, on the CPU (numpy.random.choice
  // with replace=False).
  virtual at::Tensor choice(const at::Tensor& weights, std::int64_t count);
};

}  // namespace cairn
