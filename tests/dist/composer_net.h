// The network of tests/data/composer-0.33/adamw_cosine, with units that ranks share.
#pragma once

#include <torch/torch.h>

#include <memory>

#include "cairn/algorithms/gradient_clipping.h"
#include "cairn/checkpoint/checkpoint.h"
#include "cairn/dist/sharding.h"
#include "cairn/optim/optimizers.h"
#include "cairn/schedulers/schedulers.h"
#include "cairn/train/data.h"
#include "cairn/train/options.h"
#include "cairn/train/state_dict.h"

inline std::shared_ptr<torch::nn::Module> make_composer_net(cairn::TrainerOptions& options) {
  const torch::nn::Sequential net(cairn::Sharded<torch::nn::Linear>(8, 16),
                                  torch::nn::BatchNorm1d(16), torch::nn::ReLU(),
                                  cairn::Sharded<torch::nn::Linear>(16, 4));
  options.model = cairn::classifier(net, {.num_classes = 4});
  options.optimizers =
      cairn::DecoupledAdamW({.lr = 0.02, .betas = {0.9, 0.95}, .weight_decay = 1e-4});
  options.schedulers =
      cairn::CosineAnnealingWithWarmupScheduler({.t_warmup = "3ba", .t_max = "3ep"});
  options.algorithms = {
      cairn::GradientClipping({.clipping_type = "norm", .clipping_threshold = 0.5})};
  options.eval_dataloader = {};
  options.run_name = "golden-adamw_cosine";
  return net.ptr();
}

inline std::shared_ptr<cairn::Dataset> composer_data(const std::string& file) {
  const cairn::Value data = cairn::load(file);
  return cairn::tensor_dataset(
      {cairn::tensor_of(data.at("x").as_tensor()), cairn::tensor_of(data.at("y").as_tensor())});
}
