#include <torch/torch.h>

#include "cairn/error.h"
#include "cairn/train/optimizer.h"

namespace cairn {

std::shared_ptr<torch::optim::Optimizer> OptimizerHandle::create(
    std::vector<at::Tensor> parameters) const {
  if (optimizer_) return optimizer_;
  if (recipe_) return recipe_->create(std::move(parameters));
  throw UsageError("there is no optimizer to create; give one, AdamW({.lr = 1e-3}) for example");
}

}  // namespace cairn
