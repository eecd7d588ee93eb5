// composer_continue: finishes in C++ a training run that Composer began in Python.
//
// It continues the four runs of tests/data/composer-0.33, three epochs of five batches each. From
// any of their checkpoints, it produces the losses and the final weights that Composer produced.
#include <torch/torch.h>

#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cairn/algorithms/ema.h"
#include "cairn/algorithms/gradient_clipping.h"
#include "cairn/algorithms/label_smoothing.h"
#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"
#include "cairn/optim/optimizers.h"
#include "cairn/schedulers/schedulers.h"
#include "cairn/schedulers/torch_schedulers.h"
#include "cairn/train/state_dict.h"
#include "cairn/train/trainer.h"

#include "command_line/run_main.h"

namespace {

struct ContinueOptions {
  std::string data;
  std::string checkpoint;
  std::string run;
  std::string out;
  std::string losses;
  std::string save_folder;
  std::optional<std::int64_t> sampler_seed;
};

// Records the loss of every batch, by the number of batches before it.
class LossRecorder final : public cairn::Callback {
 public:
  std::string name() const override { return "LossRecorder"; }
  void batch_end(cairn::State& state, cairn::Logger& /*logger*/) override {
    losses_[std::to_string(state.timestamp.batch - 1)] =
        state.total_loss_dict.at("loss/train/total").as_float();
  }
  // Composer saved after every batch, and for a save EMA puts the averaged weights into the model.
  // They are still there when training ends. This keeps them there in the same way.
  bool will_save(cairn::Event event, const cairn::State& /*state*/) override {
    return event == cairn::Event::kBatchCheckpoint;
  }
  const std::map<std::string, double>& losses() const { return losses_; }

 private:
  std::map<std::string, double> losses_;
};

using Case = void (*)(cairn::TrainerOptions&);

const std::map<std::string, Case>& cases() {
  static const std::map<std::string, Case> all{
      {"adamw_cosine",
       [](cairn::TrainerOptions& o) {
         o.optimizers = cairn::DecoupledAdamW({.lr = 0.02, .weight_decay = 1e-4});
         o.schedulers =
             cairn::CosineAnnealingWithWarmupScheduler({.t_warmup = "3ba", .t_max = "3ep"});
         o.algorithms =
             cairn::GradientClipping({.clipping_type = "norm", .clipping_threshold = 0.5});
       }},
      {"sgdw_linear",
       [](cairn::TrainerOptions& o) {
         o.optimizers = cairn::DecoupledSGDW(
             {.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-4, .nesterov = true});
         o.schedulers = cairn::LinearScheduler();
         o.algorithms = cairn::LabelSmoothing({.smoothing = 0.1});
       }},
      {"adam_steplr",
       [](cairn::TrainerOptions& o) {
         o.optimizers = cairn::Adam({.lr = 0.01});
         o.schedulers = cairn::StepLR({.step_size = 1, .gamma = 0.5});
         o.save_metrics = true;
       }},
      {"ema",
       [](cairn::TrainerOptions& o) {
         o.optimizers = cairn::AdamW({.lr = 0.01});
         o.schedulers = cairn::LinearScheduler();
         o.algorithms = cairn::EMA({.half_life = "4ba", .update_interval = "1ba"});
       }},
  };
  return all;
}

cairn::DataLoader load_data(const std::string& file, std::int64_t sampler_seed) {
  const cairn::Value data = cairn::load(file);
  const at::Tensor x = cairn::tensor_of(data.at("x").as_tensor());
  const at::Tensor y = cairn::tensor_of(data.at("y").as_tensor());
  return cairn::DataLoader(cairn::tensor_dataset({x, y}),
                           {.batch_size = 8, .shuffle = true, .seed = sampler_seed});
}

// Composer's runs gave their sampler the run's seed.
std::int64_t saved_seed(const std::string& checkpoint) {
  const cairn::Value file = cairn::load(checkpoint);
  const cairn::Value* seed = cairn::find_path(file, "state/rank_zero_seed");
  if (seed == nullptr) {
    throw cairn::UsageError(checkpoint + " has no state/rank_zero_seed: give --sampler-seed");
  }
  return seed->as_int();
}

int finish(const ContinueOptions& options) {
  const std::int64_t sampler_seed =
      options.sampler_seed ? *options.sampler_seed : saved_seed(options.checkpoint);
  torch::nn::Sequential net(torch::nn::Linear(8, 16), torch::nn::BatchNorm1d(16), torch::nn::ReLU(),
                            torch::nn::Linear(16, 4));
  auto recorder = std::make_shared<LossRecorder>();
  cairn::TrainerOptions trainer_options{
      .model = cairn::classifier(net, {.num_classes = 4}),
      .train_dataloader = load_data(options.data, sampler_seed),
      .max_duration = "3ep",
      .step_schedulers_every_batch = true,
      .callbacks = recorder,
      .progress_bar = false,
      .load_path = options.checkpoint,
  };
  cases().at(options.run)(trainer_options);
  if (!options.save_folder.empty()) {
    trainer_options.save_folder = options.save_folder;
    trainer_options.save_interval = "1ba";
  }

  cairn::Trainer trainer(std::move(trainer_options));
  const cairn::FitResult result = trainer.fit();
  trainer.close();
  cairn::save(trainer.state().model_state_dict().at("model"), options.out);
  if (!options.losses.empty()) {
    std::ofstream(options.losses) << nlohmann::json(recorder->losses()).dump(1) << "\n";
  }
  return result.exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Finishes a training run that Composer began.", "composer_continue");
  ContinueOptions options;
  app.add_option("--data", options.data, "data.pt of the run")->required();
  app.add_option("--checkpoint", options.checkpoint, "a checkpoint that Composer wrote")
      ->required();
  app.add_option("--case", options.run, "which run it was")
      ->required()
      ->check(CLI::IsMember(cases()));
  app.add_option("--out", options.out, "write the final weights here (.pt)")->required();
  app.add_option("--sampler-seed", options.sampler_seed,
                 "the order of epoch e is a permutation seeded with this + e; default: the seed of "
                 "the run, from the checkpoint");
  app.add_option("--losses", options.losses, "write the loss of every batch here (JSON)");
  app.add_option("--save-folder", options.save_folder, "write a checkpoint after every batch here");
  return examples::run_main(app, argc, argv, [&] { return finish(options); });
}
