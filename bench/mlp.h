// The model of the training benchmarks, which train on one core: an MLP 64-128-10 that classifies
// batches of 32 samples out of 50 random batches.
#pragma once

#include <torch/torch.h>

#include <cstdint>

#include "cairn/train/model.h"

namespace cairn::bench {

inline constexpr std::int64_t kBatchSize = 32;
inline constexpr std::int64_t kSamples = 50 * kBatchSize;

// Always has the same weights.
inline torch::nn::Sequential make_net() {
  torch::manual_seed(1);
  return torch::nn::Sequential(torch::nn::Linear(64, 128), torch::nn::ReLU(),
                               torch::nn::Linear(128, 10));
}

struct Samples {
  at::Tensor x = torch::randn({kSamples, 64});
  at::Tensor y = torch::randint(10, {kSamples}, torch::kLong);
};

class Mlp final : public Model {
 public:
  torch::nn::Module& module() override { return *net_; }
  Outputs forward(const Batch& batch) override { return net_->forward(batch[0]); }
  Losses loss(const Outputs& outputs, const Batch& batch) override {
    return torch::nn::functional::cross_entropy(outputs.single(), batch[1]);
  }

 private:
  torch::nn::Sequential net_ = make_net();
};

}  // namespace cairn::bench
