// Adam and AdamW, rounded as Python's torch.optim rounds them.
#pragma once

#include <torch/torch.h>

namespace cairn {

// libtorch's own step updates the first moment with a product and a sum; Python's (since 2.0) with
// lerp. The last bits differ, and where a gradient is nothing but rounding, Adam makes whole steps
// of them: only with Python's order does a run go on as Python's would.
class AdamOptimizer final : public torch::optim::Adam {
 public:
  using torch::optim::Adam::Adam;
  at::Tensor step(LossClosure closure = nullptr) override;
};

class AdamWOptimizer final : public torch::optim::AdamW {
 public:
  using torch::optim::AdamW::AdamW;
  at::Tensor step(LossClosure closure = nullptr) override;
};

}  // namespace cairn
