// Trains a model with tied weights, for tied_weights_test.py:
//   tied_trainer FOLDER             trains 4 batches and saves each: FOLDER/ba1.pt, ...
//   tied_trainer FOLDER CHECKPOINT  resumes from CHECKPOINT and trains to batch 4
#include <torch/torch.h>

#include <iostream>

#include "cairn/error.h"
#include "cairn/optim/optimizers.h"
#include "cairn/train/trainer.h"

namespace {

struct Projection : torch::nn::Module {
  explicit Projection(const at::Tensor& tied) : weight(register_parameter("weight", tied)) {}
  at::Tensor forward(const at::Tensor& input) const {
    return torch::nn::functional::linear(input, weight);
  }
  at::Tensor weight;
};

// One layer under two names, whose weight is the output projection's, too.
struct Net : torch::nn::Module {
  at::Tensor forward(const at::Tensor& input) {
    return out->forward(torch::tanh(second->forward(torch::tanh(first->forward(input)))));
  }
  torch::nn::Linear first{register_module("first", torch::nn::Linear(4, 4))};
  torch::nn::Linear second{register_module("second", first)};
  std::shared_ptr<Projection> out{
      register_module("out", std::make_shared<Projection>(first->weight))};
};

void train(const std::string& folder, const std::optional<std::string>& load_path) {
  const auto net = std::make_shared<Net>();
  {
    const torch::NoGradGuard no_grad;
    net->first->weight.copy_((torch::arange(16) % 5 - 2).view({4, 4}) / 4.0);
    net->first->bias.copy_(torch::arange(4) / 8.0);
  }
  const at::Tensor x = (torch::arange(32) % 7).view({8, 4}) / 8.0;
  const at::Tensor y = torch::arange(8) % 4;
  cairn::Trainer trainer({
      .model = cairn::classifier(net, {.num_classes = 4}),
      .train_dataloader = cairn::DataLoader(cairn::tensor_dataset({x, y}), {.batch_size = 2}),
      .max_duration = "4ba",
      .optimizers = cairn::AdamW({.lr = 0.05}),
      .progress_bar = false,
      .load_path = load_path,
      .save_folder = folder,
      .save_filename = "ba{batch}.pt",
      .save_interval = "1ba",
      .device = "cpu",
      .handle_signals = false,
  });
  trainer.fit();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::cerr << "usage: tied_trainer FOLDER [CHECKPOINT]\n";
    return 2;
  }
  try {
    train(argv[1], argc == 3 ? std::optional<std::string>(argv[2]) : std::nullopt);
    return 0;
  } catch (const std::exception& e) {
    std::cerr << "tied_trainer: " << e.what() << "\n";
    return 1;
  }
}
