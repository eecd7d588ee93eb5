// Frozen: users' programs, see CMakeLists.txt. A training loop of the user's own, without a
// Trainer: with save() and load(), and with the State of a run and save_checkpoint().
#include <torch/torch.h>

#include <memory>
#include <string>

#include "cairn/cairn.h"

#include "train_programs.h"

namespace frozen {
namespace {

struct LoopData {
  at::Tensor x = torch::sin(torch::arange(32, torch::kFloat)).reshape({8, 4});
  at::Tensor y = torch::arange(8, torch::kLong) % 3;
};

torch::nn::Sequential loop_net() {
  torch::manual_seed(1);
  return torch::nn::Sequential(torch::nn::Linear(4, 6), torch::nn::Tanh(), torch::nn::Linear(6, 3));
}

class Loop {
 public:
  // Resumes from the newest checkpoint in the folder.
  explicit Loop(const std::string& folder) : folder_(folder) {
    const auto newest = cairn::find_latest(folder_, {.filename = "step{batch}.pt"});
    if (!newest) return;
    const cairn::Value state = cairn::load(newest->checkpoint);
    cairn::load_state_dict(*net_, state.at("model"));
    cairn::load_optimizer_state_dict(optimizer_, *net_, state.at("optimizer"));
    cairn::restore_rng_states(state.at("rng"));
    timestamp_ = cairn::Timestamp::from_value(state.at("timestamp"));
  }

  void train_until(std::int64_t batch) {
    while (timestamp_.batch < batch) {
      optimizer_.zero_grad();
      torch::nn::functional::cross_entropy(net_->forward(data_.x), data_.y).backward();
      optimizer_.step();
      timestamp_ = timestamp_.to_next_batch(8, 0, {});
      save();
    }
  }

  std::int64_t batch() const { return timestamp_.batch; }
  cairn::Value weights() const { return cairn::state_dict(*net_); }

 private:
  void save() const {
    const cairn::Value state =
        cairn::Dict{{"model", cairn::state_dict(*net_)},
                    {"optimizer", cairn::optimizer_state_dict(optimizer_, *net_)},
                    {"rng", cairn::rng_states()},
                    {"timestamp", timestamp_.state_dict()}};
    cairn::save(state, folder_ + "/step" + std::to_string(timestamp_.batch) + ".pt",
                {.info = {.run_name = "loop", .timestamp = timestamp_}});
  }

  std::string folder_;
  LoopData data_;
  torch::nn::Sequential net_ = loop_net();
  torch::optim::AdamW optimizer_{cairn::parameters(*net_), torch::optim::AdamWOptions(0.05)};
  cairn::Timestamp timestamp_;
};

}  // namespace

void own_loop(const std::string& folder) {
  Loop straight(folder + "/straight");
  straight.train_until(6);
  Loop(folder + "/run").train_until(3);
  Loop again(folder + "/run");
  check(again.batch() == 3, "it goes on");
  again.train_until(6);
  check(again.weights() == straight.weights(), "as if it had never stopped");
  check(cairn::verify(folder + "/run/step6.pt").ok(), "the last one is whole");

  torch::nn::Sequential other = loop_net();
  cairn::load_state_dict(*other, cairn::load(folder + "/run/step6.pt").at("model"),
                         {.strict = true});
  check(cairn::state_dict(*other) == straight.weights(), "weights alone");
  cairn::save(cairn::state_dict(*other), folder + "/weights.pt");
  const cairn::IncompatibleKeys keys = cairn::load_state_dict(
      *other, cairn::open_checkpoint(folder + "/weights.pt"), {.strict = false});
  check(keys.missing.empty() && keys.unexpected.empty(), "weights of a file");
}

void own_loop_with_state(const std::string& folder) {
  const LoopData data;
  const auto fill = [](cairn::State& state) {
    const torch::nn::Sequential net = loop_net();
    state.run_name = "mine";
    state.model = cairn::classifier(net, {.num_classes = 3});
    state.optimizer = std::make_shared<torch::optim::SGD>(
        cairn::parameters(state.model->module()), torch::optim::SGDOptions(0.1).momentum(0.9));
  };
  cairn::State state;
  fill(state);
  for (int batch = 0; batch < 2; ++batch) {
    state.batch = cairn::Batch{data.x, data.y};
    state.outputs = state.model->forward(state.batch);
    state.loss = state.model->loss(state.outputs, state.batch).single();
    state.optimizer->zero_grad();
    state.loss.backward();
    state.optimizer->step();
    state.previous_timestamp = state.timestamp;
    state.timestamp = state.timestamp.to_next_batch(8, 0, {});
  }
  const std::string path =
      cairn::save_checkpoint(state, folder + "/ep{epoch}-ba{batch}-rank{rank}.pt");
  check(path == folder + "/ep0-ba2-rank0.pt", path);
  const std::string weights = cairn::save_checkpoint(
      state, folder + "/weights-ba{batch}.pt", {.weights_only = true, .ignore_keys = {"rng"}});
  check(weights == folder + "/weights-ba2.pt", weights);

  cairn::State again;
  fill(again);
  cairn::Logger logger(again);
  const auto rng = cairn::load_checkpoint(path, again, logger);
  check(rng.has_value() && cairn::restore_rng_states(*rng), "the generators' states");
  check(again.timestamp.batch == 2 && again.run_name == "mine", "the position");
  check(again.state_dict() == state.state_dict(), "all of it");

  const auto newest = cairn::find_latest(folder);
  check(newest && newest->path == path && newest->checkpoint.info().kind == "full", "found");
  cairn::State fresh;
  fill(fresh);
  cairn::Logger quiet(fresh);
  cairn::load_checkpoint(weights, fresh, quiet, {.load_weights_only = true});
  check(fresh.timestamp.batch == 0, "of weights alone the position stays");
  check(fresh.model_state_dict().at("model") == state.model_state_dict().at("model"), "weights");
}

}  // namespace frozen
