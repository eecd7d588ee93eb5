// digits: trains a network on real scans of handwritten digits, and survives being killed.
#include <torch/torch.h>

#include <cstdint>
#include <iomanip>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <CLI/CLI.hpp>

#include "cairn/dist/dist.h"
#include "cairn/loggers/file_logger.h"
#include "cairn/optim/optimizers.h"
#include "cairn/schedulers/schedulers.h"
#include "cairn/train/rng.h"
#include "cairn/train/state_dict.h"
#include "cairn/train/trainer.h"

#include "command_line/run_main.h"
#include "command_line/trainer_flags.h"
#include "digits_data.h"
#include "kill_at_batch.h"
#include "net.h"

namespace {

struct DigitsOptions {
  std::int64_t batch_size = 32;
  double lr = 3e-3;
  std::string out_weights;
  std::string log_file;
  std::optional<std::int64_t> kill_at_batch;
};

// With several processes (docs/distributed.md), each has its part of every batch.
cairn::DataLoader loader_of(const std::shared_ptr<cairn::Dataset>& scans,
                            cairn::DataLoaderOptions options) {
  const std::int64_t ranks = cairn::dist::world_size();
  if (ranks > 1) {
    options.sampler =
        cairn::DistributedSamplerOptions{.shuffle = std::exchange(options.shuffle, false),
                                         .seed = std::exchange(options.seed, std::nullopt)};
    options.batch_size = (options.batch_size + ranks - 1) / ranks;
  }
  return cairn::DataLoader(scans, options);
}

int train(const DigitsOptions& digits, cairn::TrainerOptions options) {
  // Convolutions of 8x8 images are too small to share between threads.
  torch::set_num_threads(1);
  cairn::seed_all(
      *options.seed);  // the network's first weights are drawn before there is a Trainer
  digits::Net net;
  const digits::Scans scans = digits::load_scans();

  options.model = cairn::classifier(net, {.num_classes = 10});
  options.train_dataloader = loader_of(
      scans.train, {.batch_size = digits.batch_size, .shuffle = true, .seed = *options.seed});
  options.optimizers = cairn::AdamW({.lr = digits.lr});
  options.schedulers = cairn::CosineAnnealingScheduler();
  options.eval_dataloader = loader_of(scans.test, {.batch_size = 120});
  if (!digits.log_file.empty()) options.loggers = cairn::FileLogger({.filename = digits.log_file});
  if (digits.kill_at_batch) options.callbacks = digits::KillAtBatch(*digits.kill_at_batch);

  cairn::Trainer trainer(std::move(options));
  const cairn::FitResult result = trainer.fit();
  if (result.reason == cairn::FitResult::Reason::kInterrupted) {
    trainer.close();
    return result.exit_code;
  }
  const bool is_first = cairn::dist::rank() == 0;
  if (is_first && !digits.out_weights.empty())
    cairn::save(cairn::state_dict(*net), digits.out_weights);
  trainer.eval();
  if (is_first) {
    std::cout << "test accuracy " << std::fixed << std::setprecision(4)
              << trainer.state().metric_value("eval", "MulticlassAccuracy").value() << " after "
              << trainer.state().timestamp.batch << " batches\n";
  }
  trainer.close();
  return result.exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Trains a small network on 1,797 scans of handwritten digits.", "digits");
  DigitsOptions digits;
  app.add_option("--batch-size", digits.batch_size, "samples of a batch")->capture_default_str();
  app.add_option("--lr", digits.lr, "highest learning rate")->capture_default_str();
  app.add_option("--out-weights", digits.out_weights, "write the final state_dict here (.pt)");
  app.add_option("--log-file", digits.log_file, "write the log here, for `cairn watch`");
  app.add_option("--kill-at-batch", digits.kill_at_batch,
                 "kill this process (SIGKILL) at the end of this batch");
  cairn::TrainerOptions options{.max_duration = "20ep", .run_name = "digits", .seed = 17};
  examples::add_trainer_flags(app, options);
  return examples::run_main(app, argc, argv, [&] { return train(digits, std::move(options)); });
}
