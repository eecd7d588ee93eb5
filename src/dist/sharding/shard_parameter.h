// A parameter of a sharded module. Each of the ranks that share one whole (shard_mesh.h) has some
// of the parameter's rows.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "cairn/tensor.h"

namespace cairn::dist {

struct ShardParameter {
  std::string name;
  at::Tensor tensor;  // The module's.
  Dims global_shape;
  std::int64_t per_rank = 0;
  std::int64_t begin = 0;
  std::int64_t count = 0;
  at::ScalarType compute = at::kFloat;  // dtype of the whole.
  at::ScalarType reduce = at::kFloat;   // dtype in which gradients are sent and summed.
  at::Tensor whole = {};                // Its storage has memory while the unit is whole.
  at::Tensor own = {};                  // While the unit is whole: this rank's rows.
  at::Tensor kept_gradient = {};        // While the unit is whole: the gradient of earlier passes.

  std::int64_t row_elements() const;
  std::int64_t rows_of(std::int64_t shard) const;
  at::Tensor rows() const { return own.defined() ? own : tensor; }

  // The gradient that backward() made; undefined if there is none. Throws UnsupportedError if it is
  // sparse.
  at::Tensor take_gradient() const;
  // Adds this rank's rows of a gradient to the gradient of earlier passes.
  void add_gradient(const at::Tensor& sum);
};

}  // namespace cairn::dist
