// One rank of a run with a sharded model, for fsdp_test.py, which runs the same model and data in
// Python under FSDP2:
//   fsdp_run KEY=VALUE...
//     optimizer=Adam|AdamW|SGD|PlainSGD  until=BATCHES  folder=FOLDER (a checkpoint each 3 batches)
//     load=CHECKPOINT           ranks=N: of N; the launcher's variables say which
#include <torch/torch.h>

#include <cstdio>
#include <iostream>
#include <map>
#include <memory>
#include <string>

#include "cairn/dist/dist.h"
#include "cairn/dist/sharding.h"
#include "cairn/error.h"
#include "cairn/optim/optimizers.h"
#include "cairn/train/callback.h"
#include "cairn/train/state.h"
#include "cairn/train/trainer.h"

namespace {

constexpr std::int64_t kFeatures = 7;
constexpr std::int64_t kClasses = 5;
constexpr std::int64_t kSamples = 48;
constexpr std::int64_t kBatch = 12;  // over all ranks

// Sizes that are not multiples of two, three or four ranks, and a buffer.
struct Net : torch::nn::Module {
  Net() {
    torch::manual_seed(3);
    first = register_module("first", cairn::Sharded<torch::nn::Linear>(kFeatures, 13));
    norm = register_module("norm", torch::nn::LayerNorm(std::vector<std::int64_t>{13}));
    last = register_module("last", cairn::Sharded<torch::nn::Linear>(13, kClasses));
    scale = register_parameter("scale", torch::ones({1}));
    shift = register_buffer("shift", torch::linspace(-0.5, 0.5, kFeatures));
  }
  at::Tensor forward(const at::Tensor& input) {
    return last(norm(torch::tanh(first(input + shift)))) * scale;
  }
  cairn::Sharded<torch::nn::Linear> first{nullptr}, last{nullptr};
  torch::nn::LayerNorm norm{nullptr};
  at::Tensor scale, shift;
};

struct Losses final : cairn::Callback {
  std::string name() const override { return "Losses"; }
  void batch_end(cairn::State& state, cairn::Logger& /*logger*/) override {
    if (cairn::dist::rank() != 0) return;
    std::printf("batch %lld loss %.9g\n", static_cast<long long>(state.timestamp.batch),
                state.total_loss_dict.at("loss/train/total").as_float());
  }
};

cairn::OptimizerHandle optimizer_of(const std::string& name) {
  if (name == "PlainSGD") return cairn::SGD({.lr = 0.1});
  if (name == "SGD") return cairn::SGD({.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01});
  if (name == "AdamW") return cairn::AdamW({.lr = 0.02, .weight_decay = 0.1});
  return cairn::Adam({.lr = 0.02});
}

void train(std::map<std::string, std::string> arguments) {
  const at::Tensor i = torch::arange(kSamples).unsqueeze(1);
  const at::Tensor j = torch::arange(kFeatures).unsqueeze(0);
  const at::Tensor x = ((i * 5 + j * 3) % 17) / 17.0 - 0.5;
  const at::Tensor y = (torch::arange(kSamples) * 7) % kClasses;
  const std::int64_t ranks = std::stoll(arguments["ranks"]);
  cairn::TrainerOptions options;
  options.model = cairn::classifier(std::make_shared<Net>(), {.num_classes = kClasses});
  options.train_dataloader =
      cairn::DataLoader(cairn::tensor_dataset({x, y}),
                        {.batch_size = kBatch / ranks,
                         .sampler = cairn::DistributedSamplerOptions{.shuffle = false}});
  options.optimizers = optimizer_of(arguments["optimizer"]);
  options.max_duration = arguments["until"] + "ba";
  options.callbacks = {std::make_shared<Losses>()};
  options.parallelism_config =
      cairn::ParallelismConfig{.fsdp = cairn::FSDPConfig{.state_dict_type = "sharded"}};
  options.progress_bar = false;
  options.run_name = "fsdp";
  options.device = "cpu";
  options.seed = 17;
  if (arguments.contains("folder")) options.save_folder = arguments["folder"];
  options.save_interval = "3ba";
  if (arguments.contains("load")) options.load_path = arguments["load"];
  cairn::Trainer trainer(std::move(options));
  trainer.fit();
}

}  // namespace

int main(int argc, char** argv) {
  torch::set_num_threads(1);
  std::map<std::string, std::string> arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const std::size_t at = argument.find('=');
    arguments[argument.substr(0, at)] = argument.substr(at + 1);
  }
  try {
    train(std::move(arguments));
    return 0;
  } catch (const std::exception& e) {
    std::cerr << "fsdp_run: " << e.what() << "\n";
    return 1;
  }
}
