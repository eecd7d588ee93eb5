// Frozen: users' programs, see CMakeLists.txt. A run in which every part is the user's own: model,
// metric, data, loader, optimizer, scheduler, algorithm and callback. It is stopped, and resumes.
#include <torch/torch.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cairn/cairn.h"
#include "cairn/optim/own_optimizer.h"

#include "train_programs.h"

namespace frozen {
namespace {

// The mean of the squared error.
class MeanError final : public cairn::Metric {
 public:
  std::string name() const override { return "MeanError"; }
  std::unique_ptr<cairn::Metric> clone() const override { return std::make_unique<MeanError>(); }
  void reset() override { sum_ = at::zeros({2}, at::kDouble); }
  void update(const at::Tensor& outputs, const at::Tensor& target) override {
    sum_[0] += (outputs - target).square().sum().to(at::kDouble);
    sum_[1] += target.numel();
  }
  at::Tensor compute() override { return sum_[0] / sum_[1]; }
  cairn::Value state_dict() const override { return cairn::Dict{{"sum", cairn::view_of(sum_)}}; }
  void load_state_dict(const cairn::Value& state) override {
    sum_ = cairn::tensor_of(state.at("sum").as_tensor());
  }

 private:
  at::Tensor sum_ = at::zeros({2}, at::kDouble);
};

class Regression final : public cairn::Model {
 public:
  Regression() {
    torch::manual_seed(2);
    net_->push_back(torch::nn::Linear(3, 5));
    net_->push_back(torch::nn::Tanh());
    net_->push_back(torch::nn::Dropout(0.2));
    net_->push_back(torch::nn::Linear(5, 1));
  }
  torch::nn::Module& module() override { return *net_; }
  cairn::Outputs forward(const cairn::Batch& batch) override {
    return net_->forward(batch["features"]);
  }
  cairn::Losses loss(const cairn::Outputs& outputs, const cairn::Batch& batch) override {
    const at::Tensor error = torch::mse_loss(outputs.single(), batch["target"]);
    return cairn::Losses::named({{"error", error}, {"total", 2 * error}});
  }
  cairn::Metrics get_metrics(bool /*is_train*/) override {
    return {{"MeanError", std::make_shared<MeanError>()}};
  }
  void update_metric(const cairn::Batch& batch, const cairn::Outputs& outputs,
                     cairn::Metric& metric) override {
    metric.update(outputs.single(), batch["target"]);
  }

 private:
  torch::nn::Sequential net_;
};

class Waves final : public cairn::Dataset {
 public:
  std::int64_t size() const override { return 12; }
  cairn::Batch get_batch(std::span<const std::int64_t> indices) const override {
    std::vector<at::Tensor> features;
    for (const std::int64_t index : indices)
      features.push_back(torch::sin(torch::arange(3, torch::kFloat) + static_cast<float>(index)));
    const at::Tensor stacked = torch::stack(features);
    return cairn::Batch::named({{"features", stacked}, {"target", stacked.sum(1, true)}});
  }
};

// Gives batches in order, without a dataset.
class InOrder final : public cairn::DataLoaderBase {
 public:
  std::optional<std::int64_t> num_batches() const override { return 3; }
  std::optional<std::int64_t> batch_size() const override { return 4; }
  void start_epoch(std::int64_t /*epoch*/, std::int64_t first_batch) override {
    next_ = first_batch;
  }
  std::optional<cairn::Batch> next() override {
    if (next_ == 3) return std::nullopt;
    const std::int64_t begin = 4 * next_++;
    return Waves().get_batch(std::vector<std::int64_t>{begin, begin + 1, begin + 2, begin + 3});
  }
  cairn::Value state_dict() const override { return cairn::Dict{{"kind", "in order"}}; }
  void load_state_dict(const cairn::Value& state) override {
    if (state.at("kind").as_str() != "in order") throw cairn::MismatchError("another order");
  }

 private:
  std::int64_t next_ = 0;
};

struct SignOptions {
  double lr = 1e-2;
  double momentum = 0.5;
  void describe(cairn::GroupFields& group) {
    group.number("lr", lr);
    group.number("momentum", momentum);
  }
};
struct SignState {
  at::Tensor mean = {};
  void describe(cairn::StateFields& state, const SignOptions& /*options*/) {
    state.tensor("mean", mean);
  }
};
class Sign final : public cairn::OptimizerOf<SignOptions, SignState> {
 public:
  using OptimizerOf::OptimizerOf;
  std::string python_name() const override { return "Sign"; }

 private:
  void update(const Update& u) override {
    at::Tensor& mean = u.state.mean;
    if (!mean.defined()) mean = at::zeros_like(u.parameter);
    mean.lerp_(u.gradient, 1 - u.options.momentum);
    u.parameter.add_(mean.sign(), -u.options.lr);
  }
};

class Halving final : public cairn::ComposerScheduler {
 public:
  double operator()(const cairn::State& state, double ssr) const override {
    return state.timestamp.batch < 4 * ssr ? 1 : 0.5;
  }
};

// Adds noise to the batch, from the global generator.
class Noise final : public cairn::Algorithm {
 public:
  std::string name() const override { return "Noise"; }
  std::string repr() const override { return "Noise()"; }
  bool match(cairn::Event event, const cairn::State& /*state*/) const override {
    return event == cairn::Event::kAfterDataloader;
  }
  void apply(cairn::Event /*event*/, cairn::State& state, cairn::Logger& logger) override {
    at::Tensor& features = state.batch["features"];
    features = features + 0.1 * at::randn_like(features);
    logger.log_metrics(cairn::Dict{{"noise/applied", ++applied_}});
  }
  std::vector<cairn::AlgorithmPass> passes() const override {
    return {{.name = "Noise first",
             .order = [](std::vector<cairn::Algorithm*>& algorithms, cairn::Event /*event*/) {
               std::stable_partition(algorithms.begin(), algorithms.end(),
                                     [](auto* each) { return each->name() == "Noise"; });
             }}};
  }
  cairn::Value state_dict() const override {
    return cairn::Dict{{"repr", repr()}, {"applied", applied_}};
  }
  void load_state_dict(const cairn::Value& state, const cairn::State& /*live*/) override {
    applied_ = state.at("applied").as_int();
  }

 private:
  std::int64_t applied_ = 0;
};

// Counts batches and epochs over all starts, and remembers the last loss.
class Diary final : public cairn::Callback {
 public:
  std::string name() const override { return "Diary"; }
  void after_load(cairn::State& state, cairn::Logger& /*logger*/) override {
    began_at = state.timestamp.batch;
  }
  void batch_end(cairn::State& state, cairn::Logger& /*logger*/) override {
    ++batches;
    last_loss = state.total_loss_dict.at("loss/train/total").as_float();
  }
  void epoch_end(cairn::State& state, cairn::Logger& /*logger*/) override {
    epochs = state.timestamp.epoch;
  }
  cairn::Value state_dict() const override {
    return cairn::Dict{{"batches", batches}, {"epochs", epochs}, {"last_loss", last_loss}};
  }
  void load_state_dict(const cairn::Value& state) override {
    batches = state.at("batches").as_int();
    epochs = state.at("epochs").as_int();
    last_loss = state.at("last_loss").as_float();
  }

  std::int64_t began_at = -1;
  std::int64_t batches = 0;
  std::int64_t epochs = 0;
  double last_loss = 0;
};

// Ends the run in the middle by an exception. For the Trainer that is like a crash.
class Crash final : public cairn::Callback {
 public:
  explicit Crash(std::int64_t batch) : batch_(batch) {}
  void run_event(cairn::Event event, cairn::State& state, cairn::Logger& /*logger*/) override {
    if (event == cairn::Event::kBeforeForward && state.timestamp.batch == batch_) {
      throw cairn::TrainingError("crash");
    }
  }

 private:
  std::int64_t batch_;
};

struct PartsRun {
  std::shared_ptr<Diary> diary = std::make_shared<Diary>();
  cairn::TrainerOptions options;

  PartsRun(const std::string& folder, std::int64_t crash) {
    options.model = Regression();
    options.train_dataloader = InOrder();
    options.max_duration = "3ep";
    options.algorithms = {Noise(), cairn::EMA({.half_life = "2ba"})};
    options.optimizers = cairn::RecipeOf<Sign>({.lr = 0.02});
    options.schedulers = Halving();
    options.eval_dataloader = cairn::DataLoader(std::make_shared<Waves>(), {.batch_size = 6});
    options.callbacks = {diary, Crash(crash)};
    options.run_name = "parts";
    options.progress_bar = false;
    options.save_folder = folder;
    options.save_filename = "ba{batch}.pt";
    options.save_latest_filename = "latest";
    options.save_interval = "2ba";
    options.save_metrics = true;
    options.autoresume = true;
    options.device = "cpu";
    options.seed = 9;
    options.handle_signals = false;
  }
};

}  // namespace

void own_parts(const std::string& folder) {
  PartsRun straight(folder + "/straight", -1);
  cairn::Trainer(std::move(straight.options)).fit();

  PartsRun first(folder + "/run", 5);
  {
    cairn::Trainer trainer(std::move(first.options));
    try {
      trainer.fit();
      check(false, "there was no crash");
    } catch (const cairn::TrainingError&) {
    }
  }
  PartsRun second(folder + "/run", -1);
  cairn::Trainer trainer(std::move(second.options));
  check(second.diary->began_at == 4 && second.diary->batches == 4, "it goes on from batch 4");
  check(trainer.fit().reason == cairn::FitResult::Reason::kFinished, "to the end");
  check(second.diary->batches == 9 && second.diary->epochs == straight.diary->epochs, "its state");
  check(second.diary->last_loss == straight.diary->last_loss, "as if it had never stopped");
  const auto error = trainer.state().metric_value("eval", "MeanError");
  check(error.has_value(), "the metric");
  trainer.close();

  const cairn::Value ended = cairn::load(folder + "/run/latest");
  const cairn::Value expected = cairn::load(folder + "/straight/latest");
  for (const char* path : {"state/model", "state/optimizers", "state/schedulers",
                           "state/algorithms", "state/callbacks/Diary", "rng"}) {
    check(*cairn::find_path(ended, path) == *cairn::find_path(expected, path), path);
  }
  check(cairn::find_path(ended, "state/optimizers/Sign") != nullptr, "under its name");
  check(trainer.saved_checkpoints().back() == folder + "/run/ba9.pt", "the last one");
}

}  // namespace frozen
