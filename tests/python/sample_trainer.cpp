// Trains a little and writes the files that read_checkpoint.py reads. sample_trainer FOLDER writes:
//   FOLDER/full.pt, FOLDER/weights.pt   a checkpoint, and its weights alone
//   FOLDER/expected.json                the values that Python must find in them
#include <torch/torch.h>

#include <fstream>
#include <iostream>

#include <nlohmann/json.hpp>

#include "cairn/callbacks/speed_monitor.h"
#include "cairn/error.h"
#include "cairn/optim/optimizers.h"
#include "cairn/schedulers/schedulers.h"
#include "cairn/train/rng.h"
#include "cairn/train/trainer.h"

namespace {

using cairn::Batch;

constexpr std::int64_t kSeed = 17;

std::vector<float> numbers(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.detach().to(at::kFloat).contiguous().flatten();
  return {flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel()};
}

void write(const std::string& folder) {
  torch::manual_seed(1);
  const torch::nn::Sequential net(torch::nn::Linear(4, 6), torch::nn::BatchNorm1d(6),
                                  torch::nn::ReLU(), torch::nn::Linear(6, 3));
  const at::Tensor x = torch::rand({10, 4});
  const at::Tensor y = torch::arange(10) % 3;
  cairn::Trainer trainer({
      .model = cairn::classifier(net, {.num_classes = 3}),
      .train_dataloader =
          cairn::DataLoader(cairn::tensor_dataset({x, y}), {.batch_size = 2, .shuffle = true}),
      .max_duration = "7ba",
      .optimizers = cairn::AdamW({.lr = 0.01}),
      .schedulers = cairn::LinearScheduler(),
      .callbacks = cairn::SpeedMonitor({.window_size = 2}),
      .run_name = "sample",
      .progress_bar = false,
      .save_metrics = true,
      .device = "cpu",
      .seed = kSeed,
      .handle_signals = false,
  });
  trainer.fit();
  cairn::seed_all(kSeed);
  torch::rand({3});
  trainer.save_checkpoint(folder + "/full.pt");
  trainer.save_checkpoint(folder + "/weights.pt", /*weights_only=*/true);

  nlohmann::ordered_json expected;
  for (const auto& item : net->named_parameters()) {
    expected["model"]["module." + item.key()] = {{"shape", item.value().sizes().vec()},
                                                 {"values", numbers(item.value())}};
  }
  expected["seed"] = kSeed;
  expected["next_random_numbers"] = numbers(torch::rand({4}));
  expected["lr"] = cairn::learning_rates(*trainer.state().optimizer);
  std::ofstream(folder + "/expected.json") << expected;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: sample_trainer FOLDER\n";
    return 2;
  }
  try {
    write(argv[1]);
    return 0;
  } catch (const std::exception& e) {
    std::cerr << "sample_trainer: " << e.what() << "\n";
    return 1;
  }
}
