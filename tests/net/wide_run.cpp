// A run whose checkpoints are larger than two parts of an upload. killed_runs_test.py starts it in
// place of digits, with the same flags and number of batches.
#include <torch/torch.h>

#include <cstdint>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "cairn/optim/optimizers.h"
#include "cairn/train/rng.h"
#include "cairn/train/state_dict.h"
#include "cairn/train/trainer.h"

#include "command_line/run_main.h"
#include "command_line/trainer_flags.h"
#include "digits/kill_at_batch.h"

namespace {

constexpr std::int64_t kWidth = 20'000;  // 18 MB with AdamW's state
constexpr std::int64_t kBatchSize = 32;
constexpr std::int64_t kSamples = 45 * kBatchSize;

int train(const std::string& out_weights, const std::optional<std::int64_t>& kill_at_batch,
          cairn::TrainerOptions options) {
  torch::set_num_threads(1);
  cairn::seed_all(*options.seed);
  const torch::nn::Sequential net(torch::nn::Linear(64, kWidth), torch::nn::ReLU(),
                                  torch::nn::Linear(kWidth, 10));
  const at::Tensor x = torch::rand({kSamples, 64});
  const at::Tensor y = torch::randint(10, {kSamples}, torch::kLong);
  options.model = cairn::classifier(net, {.num_classes = 10});
  options.train_dataloader =
      cairn::DataLoader(cairn::tensor_dataset({x, y}),
                        {.batch_size = kBatchSize, .shuffle = true, .seed = *options.seed});
  options.optimizers = cairn::AdamW({.lr = 1e-3});
  if (kill_at_batch) options.callbacks = digits::KillAtBatch(*kill_at_batch);
  cairn::Trainer trainer(std::move(options));
  const cairn::FitResult result = trainer.fit();
  if (!out_weights.empty()) cairn::save(cairn::state_dict(*net), out_weights);
  trainer.close();
  return result.exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Trains a wide network on random numbers.", "wide_run");
  std::string out_weights;
  std::optional<std::int64_t> kill_at_batch;
  app.add_option("--out-weights", out_weights, "write the final state_dict here (.pt)");
  app.add_option("--kill-at-batch", kill_at_batch, "kill this process at the end of this batch");
  cairn::TrainerOptions options{.max_duration = "4ep", .run_name = "wide", .seed = 17};
  examples::add_trainer_flags(app, options);
  return examples::run_main(app, argc, argv,
                            [&] { return train(out_weights, kill_at_batch, std::move(options)); });
}
