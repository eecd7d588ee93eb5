// A run with dropout, for dropout_test.py: three epochs of five batches and two evaluators. It
// starts from the weights of the data file, or from a checkpoint.
//
//   dropout_run DATA FOLDER [CHECKPOINT]   saves FOLDER/ba<n>.pt after every batch, and at the end
//                                          FOLDER/losses.json and FOLDER/final.pt
#include <torch/torch.h>

#include <fstream>
#include <iostream>
#include <map>

#include <nlohmann/json.hpp>

#include "cairn/optim/optimizers.h"
#include "cairn/train/state_dict.h"
#include "cairn/train/trainer.h"

namespace {

class LossWriter final : public cairn::Callback {
 public:
  explicit LossWriter(std::string path) : path_(std::move(path)) {}
  std::string name() const override { return "LossWriter"; }
  void batch_end(cairn::State& state, cairn::Logger& /*logger*/) override {
    losses_[std::to_string(state.timestamp.batch)] =
        state.total_loss_dict.at("loss/train/total").as_float();
  }
  void fit_end(cairn::State& /*state*/, cairn::Logger& /*logger*/) override {
    std::ofstream(path_) << nlohmann::json(losses_);
  }

 private:
  std::string path_;
  std::map<std::string, double> losses_;
};

void run(const std::string& data_file, const std::string& folder, const char* checkpoint) {
  const cairn::Value data = cairn::load(data_file);
  const auto tensor = [&](const char* key) { return cairn::tensor_of(data.at(key).as_tensor()); };
  const torch::nn::Sequential net(torch::nn::Linear(8, 16), torch::nn::ReLU(),
                                  torch::nn::Dropout(0.5), torch::nn::Linear(16, 4));
  auto model = cairn::classifier(net, {.num_classes = 4});
  cairn::load_state_dict(model->module(), data.at("weights"));
  const auto samples = cairn::tensor_dataset({tensor("x"), tensor("y")});
  cairn::TrainerOptions options{
      .model = model,
      .train_dataloader = cairn::DataLoader(
          samples, {.batch_size = 8, .shuffle = true, .seed = data.at("sampler_seed").as_int()}),
      .max_duration = "3ep",
      .optimizers = cairn::Adam({.lr = 0.01}),
      .eval_dataloader = {{.label = "each epoch",
                           .dataloader = cairn::DataLoader(samples, {.batch_size = 20})},
                          {.label = "each second batch",
                           .dataloader = cairn::DataLoader(samples, {.batch_size = 20}),
                           .eval_interval = "2ba"}},
      .callbacks = LossWriter(folder + "/losses.json"),
      .run_name = "dropout",
      .progress_bar = false,
      .save_folder = folder,
      .save_filename = "ba{batch}.pt",
      .save_latest_filename = std::nullopt,
      .save_interval = "1ba",
      .device = "cpu",
      .seed = data.at("seed").as_int(),
      .handle_signals = false,
  };
  if (checkpoint != nullptr) options.load_path = checkpoint;
  cairn::Trainer trainer(std::move(options));
  trainer.fit();
  trainer.close();
  cairn::save(trainer.state().model_state_dict().at("model"), folder + "/final.pt");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) {
    std::cerr << "usage: dropout_run DATA FOLDER [CHECKPOINT]\n";
    return 2;
  }
  try {
    run(argv[1], argv[2], argc == 4 ? argv[3] : nullptr);
    return 0;
  } catch (const std::exception& e) {
    std::cerr << "dropout_run: " << e.what() << "\n";
    return 1;
  }
}
