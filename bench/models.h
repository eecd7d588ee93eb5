// The models of the training benchmarks. train_bench.py has the same in Python.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "cairn/train/model.h"

namespace cairn::bench {

// A module that classifies: its outputs are (N, classes), or (N, tokens, classes).
struct Net : torch::nn::Module {
  virtual at::Tensor forward(const at::Tensor& x) = 0;
};

inline at::Tensor loss_of(const at::Tensor& outputs, const at::Tensor& targets) {
  return torch::nn::functional::cross_entropy(outputs.flatten(0, -2), targets.flatten());
}

struct Perceptron final : Net {
  explicit Perceptron(const std::vector<std::int64_t>& widths) {
    for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
      if (i > 0) layers->push_back(torch::nn::ReLU());
      layers->push_back(torch::nn::Linear(widths[i], widths[i + 1]));
    }
    register_module("layers", layers);
  }
  at::Tensor forward(const at::Tensor& x) override { return layers->forward(x); }

  torch::nn::Sequential layers;
};

// A transformer over characters: pre-norm layers with masked attention of 4 heads. Twelve layers
// have 148 parameters.
struct CharTransformer final : Net {
  static constexpr std::int64_t kCharacters = 65;
  static constexpr std::int64_t kLength = 64;
  static constexpr std::int64_t kWidth = 128;
  static constexpr std::int64_t kHeads = 4;

  struct Layer final : torch::nn::Module {
    Layer() {
      register_module("norm1", norm1);
      register_module("qkv", qkv);
      register_module("out", out);
      register_module("norm2", norm2);
      register_module("up", up);
      register_module("down", down);
    }
    at::Tensor forward(const at::Tensor& x, const at::Tensor& mask) {
      const at::Tensor parts = qkv(norm1(x))
                                   .view({x.size(0), kLength, 3, kHeads, kWidth / kHeads})
                                   .permute({2, 0, 3, 1, 4});
      const at::Tensor scores =
          at::matmul(parts[0], parts[1].transpose(-2, -1)) / std::sqrt(double(kWidth / kHeads));
      const at::Tensor mixed = at::matmul((scores + mask).softmax(-1), parts[2]);
      const at::Tensor h = x + out(mixed.transpose(1, 2).reshape(x.sizes()));
      return h + down(at::gelu(up(norm2(h))));
    }

    torch::nn::LayerNorm norm1{torch::nn::LayerNormOptions({kWidth})};
    torch::nn::Linear qkv{kWidth, 3 * kWidth};
    torch::nn::Linear out{kWidth, kWidth};
    torch::nn::LayerNorm norm2{torch::nn::LayerNormOptions({kWidth})};
    torch::nn::Linear up{kWidth, 4 * kWidth};
    torch::nn::Linear down{4 * kWidth, kWidth};
  };

  explicit CharTransformer(int depth = 4) {
    register_module("tokens", tokens);
    positions = register_parameter("positions", torch::randn({kLength, kWidth}) * 0.02);
    for (int i = 0; i < depth; ++i)
      layers->push_back(std::make_shared<Layer>());
    register_module("layers", layers);
    register_module("head", head);
    mask = register_buffer("mask", at::full({kLength, kLength}, -1e9).triu(1));
  }
  at::Tensor forward(const at::Tensor& x) override {
    at::Tensor h = tokens(x) + positions;
    for (const auto& layer : *layers)
      h = layer->as<Layer>()->forward(h, mask);
    return head(h);
  }

  torch::nn::Embedding tokens{kCharacters, kWidth};
  at::Tensor positions;
  torch::nn::ModuleList layers;
  torch::nn::Linear head{kWidth, kCharacters};
  at::Tensor mask;
};

// Nine convolutions with batch normalization, for images of 32x32.
struct ConvNet final : Net {
  ConvNet() {
    std::int64_t in = 3;
    for (const std::int64_t out : {32, 32, 32, 64, 64, 64, 128, 128, 128}) {
      const std::int64_t stride = out != in && in != 3 ? 2 : 1;
      layers->push_back(torch::nn::Conv2d(
          torch::nn::Conv2dOptions(in, out, 3).stride(stride).padding(1).bias(false)));
      layers->push_back(torch::nn::BatchNorm2d(out));
      layers->push_back(torch::nn::ReLU());
      in = out;
    }
    register_module("layers", layers);
    register_module("head", head);
  }
  at::Tensor forward(const at::Tensor& x) override { return head(layers->forward(x).mean({2, 3})); }

  torch::nn::Sequential layers;
  torch::nn::Linear head{128, 10};
};

// A model, its data, and how many batches a block of a benchmark has.
struct Task {
  std::string name;
  std::function<std::shared_ptr<Net>()> make;  // always with the same weights
  at::Tensor x;
  at::Tensor y;
  std::int64_t batch_size;
  std::int64_t batches;
};

inline Task make_task(const std::string& name) {
  torch::manual_seed(2);
  const auto seeded = [](auto make) {
    return [make]() -> std::shared_ptr<Net> {
      torch::manual_seed(1);
      return make();
    };
  };
  const auto perceptron = [&](const std::vector<std::int64_t>& widths) {
    return seeded([widths] { return std::make_shared<Perceptron>(widths); });
  };
  const auto classes = [](at::IntArrayRef shape) {
    return torch::randint(10, shape, torch::kLong);
  };
  if (name == "perceptron") {
    return {name, perceptron({64, 128, 10}), torch::randn({1600, 64}), classes({1600}), 32, 500};
  }
  if (name == "layers") {
    return {name, perceptron({256, 256, 256, 10}), torch::randn({1600, 256}), classes({1600}), 32,
            200};
  }
  if (name == "transformer" || name == "deep_transformer") {
    const int depth = name == "transformer" ? 4 : 12;
    const at::Tensor text = torch::randint(CharTransformer::kCharacters,
                                           {256, CharTransformer::kLength + 1}, torch::kLong);
    return {name,
            seeded([depth] { return std::make_shared<CharTransformer>(depth); }),
            text.narrow(1, 0, CharTransformer::kLength).contiguous(),
            text.narrow(1, 1, CharTransformer::kLength).contiguous(),
            8,
            16};
  }
  if (name == "convolutions") {
    return {name,
            seeded([] { return std::make_shared<ConvNet>(); }),
            torch::randn({256, 3, 32, 32}),
            classes({256}),
            16,
            8};
  }
  throw std::runtime_error(
      name + ": not perceptron, layers, transformer, deep_transformer or convolutions");
}

class NetModel final : public Model {
 public:
  explicit NetModel(std::shared_ptr<Net> net) : net_(std::move(net)) {}
  torch::nn::Module& module() override { return *net_; }
  Outputs forward(const Batch& batch) override { return net_->forward(batch[0]); }
  Losses loss(const Outputs& outputs, const Batch& batch) override {
    return loss_of(outputs.single(), batch[1]);
  }

 private:
  std::shared_ptr<Net> net_;
};

}  // namespace cairn::bench
