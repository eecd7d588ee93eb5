#include "dist/sharding/shard_parameter.h"

#include <algorithm>
#include <utility>

#include "cairn/error.h"

#include "dist/page_tensor.h"

namespace cairn::dist {

std::int64_t ShardParameter::row_elements() const {
  std::int64_t elements = 1;
  for (std::size_t i = 1; i < global_shape.size(); ++i)
    elements *= global_shape[i];
  return elements;
}

std::int64_t ShardParameter::rows_of(std::int64_t shard) const {
  const std::int64_t all = global_shape[0];
  const std::int64_t first = std::min(shard * per_rank, all);
  return std::min(first + per_rank, all) - first;
}

at::Tensor ShardParameter::take_gradient() const {
  at::Tensor gradient = std::exchange(tensor.mutable_grad(), at::Tensor());
  if (gradient.defined() && gradient.is_sparse()) {
    throw UnsupportedError("the parameter " + name +
                           " has sparse gradients, which cannot be sharded: make its Embedding "
                           "with sparse = false");
  }
  return gradient;
}

void ShardParameter::add_gradient(const at::Tensor& sum) {
  at::Tensor& gradient = own.defined() ? kept_gradient : tensor.mutable_grad();
  Dims shape = global_shape;
  shape[0] = count;
  const at::Tensor own_rows = sum.view(shape).to(rows().scalar_type());
  if (gradient.defined()) {
    gradient.add_(own_rows);
  } else {  // A copy, not a view of the message.
    gradient = page_tensor(own_rows.sizes(), own_rows.options()).copy_(own_rows);
  }
}

}  // namespace cairn::dist
