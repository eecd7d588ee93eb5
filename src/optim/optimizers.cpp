#include "cairn/optim/optimizers.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include "cairn/error.h"
#include "cairn/train/parameters.h"

#include "optim/adam.h"
#include "optim/decoupled_adamw.h"
#include "optim/decoupled_sgdw.h"

namespace cairn {
namespace {

// Checks the options of one optimizer; UsageError names the first that is out of range.
class Checker {
 public:
  explicit Checker(std::string_view optimizer) : optimizer_(optimizer) {}

  void not_negative(std::string_view option, double value) const {
    if (!(value >= 0)) refuse(option, value, "0 or more");
  }
  void betas(const std::array<double, 2>& betas) const {
    for (const double beta : betas) {
      if (!(beta >= 0 && beta < 1)) refuse("betas", beta, "numbers in [0, 1)");
    }
  }
  void nesterov(bool nesterov, double momentum, double dampening) const {
    if (nesterov && (momentum <= 0 || dampening != 0)) {
      throw UsageError(
          fmt::format("{}: nesterov needs a momentum and no dampening, found momentum "
                      "{} and dampening {}",
                      optimizer_, momentum, dampening));
    }
  }

 private:
  void refuse(std::string_view option, double value, std::string_view wanted) const {
    throw UsageError(fmt::format("{}: {} must be {}, found {}", optimizer_, option, wanted, value));
  }
  std::string_view optimizer_;
};

template <class Options>
void check_sgd(std::string_view name, const Options& options) {
  const Checker check(name);
  check.not_negative("lr", options.lr);
  check.not_negative("momentum", options.momentum);
  check.not_negative("weight_decay", options.weight_decay);
  check.nesterov(options.nesterov, options.momentum, options.dampening);
}

template <class Options>
void check_adam(std::string_view name, const Options& options) {
  const Checker check(name);
  check.not_negative("lr", options.lr);
  check.betas(options.betas);
  check.not_negative("eps", options.eps);
  check.not_negative("weight_decay", options.weight_decay);
}

// Adam's and AdamW's options as libtorch has them.
template <class To, class From>
To adam_options(const From& from) {
  return To(from.lr)
      .betas({from.betas[0], from.betas[1]})
      .eps(from.eps)
      .weight_decay(from.weight_decay)
      .amsgrad(from.amsgrad);
}

}  // namespace

std::shared_ptr<torch::optim::Optimizer> OptimizerHandle::create(
    std::vector<at::Tensor> parameters) const {
  if (optimizer_) return optimizer_;
  if (recipe_) return recipe_->create(std::move(parameters));
  throw UsageError("there is no optimizer to create; give one, AdamW({.lr = 1e-3}) for example");
}

std::shared_ptr<torch::optim::Optimizer> SGD::create(std::vector<at::Tensor> parameters) const {
  check_sgd("SGD", options_);
  return std::make_shared<torch::optim::SGD>(each_once(std::move(parameters)),
                                             torch::optim::SGDOptions(options_.lr)
                                                 .momentum(options_.momentum)
                                                 .dampening(options_.dampening)
                                                 .weight_decay(options_.weight_decay)
                                                 .nesterov(options_.nesterov));
}

std::shared_ptr<torch::optim::Optimizer> Adam::create(std::vector<at::Tensor> parameters) const {
  check_adam("Adam", options_);
  return std::make_shared<AdamOptimizer>(each_once(std::move(parameters)),
                                         adam_options<torch::optim::AdamOptions>(options_));
}

std::shared_ptr<torch::optim::Optimizer> AdamW::create(std::vector<at::Tensor> parameters) const {
  check_adam("AdamW", options_);
  return std::make_shared<AdamWOptimizer>(each_once(std::move(parameters)),
                                          adam_options<torch::optim::AdamWOptions>(options_));
}

std::shared_ptr<torch::optim::Optimizer> RMSprop::create(std::vector<at::Tensor> parameters) const {
  const Checker check("RMSprop");
  check.not_negative("lr", options_.lr);
  check.not_negative("alpha", options_.alpha);
  check.not_negative("eps", options_.eps);
  check.not_negative("weight_decay", options_.weight_decay);
  check.not_negative("momentum", options_.momentum);
  return std::make_shared<torch::optim::RMSprop>(each_once(std::move(parameters)),
                                                 torch::optim::RMSpropOptions(options_.lr)
                                                     .alpha(options_.alpha)
                                                     .eps(options_.eps)
                                                     .weight_decay(options_.weight_decay)
                                                     .momentum(options_.momentum)
                                                     .centered(options_.centered));
}

std::shared_ptr<torch::optim::Optimizer> Adagrad::create(std::vector<at::Tensor> parameters) const {
  const Checker check("Adagrad");
  check.not_negative("lr", options_.lr);
  check.not_negative("lr_decay", options_.lr_decay);
  check.not_negative("weight_decay", options_.weight_decay);
  check.not_negative("initial_accumulator_value", options_.initial_accumulator_value);
  check.not_negative("eps", options_.eps);
  return std::make_shared<torch::optim::Adagrad>(
      each_once(std::move(parameters)),
      torch::optim::AdagradOptions(options_.lr)
          .lr_decay(options_.lr_decay)
          .weight_decay(options_.weight_decay)
          .initial_accumulator_value(options_.initial_accumulator_value)
          .eps(options_.eps));
}

std::shared_ptr<torch::optim::Optimizer> DecoupledSGDW::create(
    std::vector<at::Tensor> parameters) const {
  check_sgd("DecoupledSGDW", options_);
  return std::make_shared<DecoupledSGDWOptimizer>(each_once(std::move(parameters)), options_);
}

std::shared_ptr<torch::optim::Optimizer> DecoupledAdamW::create(
    std::vector<at::Tensor> parameters) const {
  check_adam("DecoupledAdamW", options_);
  return std::make_shared<DecoupledAdamWOptimizer>(each_once(std::move(parameters)), options_);
}

}  // namespace cairn
