// SGD: libtorch's class, which computes the same as Python's.
#include <torch/torch.h>

#include "cairn/optim/optimizers.h"
#include "cairn/train/parameters.h"

#include "optim/option_checks.h"

namespace cairn {

std::shared_ptr<torch::optim::Optimizer> SGD::create(std::vector<at::Tensor> parameters) const {
  OptionChecks("SGD").sgd(options_);
  return std::make_shared<torch::optim::SGD>(unique_tensors(std::move(parameters)),
                                             torch::optim::SGDOptions(options_.lr)
                                                 .momentum(options_.momentum)
                                                 .dampening(options_.dampening)
                                                 .weight_decay(options_.weight_decay)
                                                 .nesterov(options_.nesterov));
}

}  // namespace cairn
