// The network: two convolutions, batch norm, dropout, one linear layer; 10,026 parameters.
#pragma once

#include <torch/torch.h>

namespace digits {

struct NetImpl : torch::nn::Module {
  NetImpl() {
    register_module("conv1", conv1);
    register_module("norm1", norm1);
    register_module("conv2", conv2);
    register_module("norm2", norm2);
    register_module("dropout", dropout);
    register_module("linear", linear);
  }

  at::Tensor forward(at::Tensor x) {
    x = torch::relu(norm1(conv1(x)));
    x = torch::relu(norm2(conv2(x)));
    x = torch::max_pool2d(x, 2).flatten(1);
    return linear(dropout(x));
  }

  torch::nn::Conv2d conv1{torch::nn::Conv2dOptions(1, 16, 3).padding(1)};
  torch::nn::BatchNorm2d norm1{16};
  torch::nn::Conv2d conv2{torch::nn::Conv2dOptions(16, 32, 3).padding(1)};
  torch::nn::BatchNorm2d norm2{32};
  torch::nn::Dropout dropout{0.5};
  torch::nn::Linear linear{32 * 4 * 4, 10};
};
TORCH_MODULE(Net);

}  // namespace digits
