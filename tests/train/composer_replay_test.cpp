// Training recorded by Composer 0.33 and older releases is continued here from its checkpoints.
// Optimizers, schedulers and algorithms must reproduce each loss and the final weights. This test
// writes the training loop out, so that only optimizers, schedulers and algorithms can cause a
// difference.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <fstream>
#include <regex>

#include "cairn/algorithms/ema.h"
#include "cairn/algorithms/gradient_clipping.h"
#include "cairn/algorithms/label_smoothing.h"
#include "cairn/checkpoint/checkpoint.h"
#include "cairn/optim/optimizers.h"
#include "cairn/schedulers/schedulers.h"
#include "cairn/schedulers/torch_schedulers.h"
#include "cairn/train/logger.h"
#include "cairn/train/state.h"
#include "cairn/train/state_dict.h"

namespace cairn {
namespace {

constexpr std::int64_t kBatchSize = 8;
constexpr std::int64_t kBatchesPerEpoch = 5;
constexpr std::int64_t kComposerBatches = 15;
// The largest step of Adam, as a multiple of the learning rate. The Cauchy-Schwarz inequality gives
// this bound for at most 15 steps with these betas.
constexpr double kLargestAdamStep = 1.1;

const std::string kFolder = CAIRN_TEST_DATA "/composer-0.33/";
const std::string kReleases = CAIRN_TEST_DATA "/composer-releases/";

// The losses that run.json lists. Empty if there is no run.json.
std::vector<double> recorded_losses(const std::string& run) {
  std::ifstream file(run + "/run.json");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (text.empty()) return {};
  const std::string list = text.substr(text.find('['), text.find(']') - text.find('['));
  const std::regex number(R"(\d+\.\d+)");
  std::vector<double> losses;
  for (std::sregex_iterator it(list.begin(), list.end(), number), end; it != end; ++it) {
    losses.push_back(std::stod(it->str()));
  }
  return losses;
}

// The amount that each batch from the fourth on adds to the running mean, minus the bias in that
// batch. One row per batch.
at::Tensor recorded_batch_means(const std::string& runs, const std::string& name) {
  const Value means = load((runs == kFolder ? kFolder : kReleases) + "batch_means.pt");
  if (runs == kFolder) return tensor_of(means.at(name).as_tensor());
  const std::string release = runs.substr(kReleases.size(), runs.size() - kReleases.size() - 1);
  return tensor_of(means.at(release).at(name).as_tensor());
}

// Saves after every batch, as the recorded runs did.
struct SaverOfEveryBatch final : Callback {
  bool will_save(Event event, const State& /*state*/) override {
    return event == Event::kBatchCheckpoint;
  }
};

// The BatchNorm after the first layer removes that layer's bias. So the bias has a zero gradient
// except for rounding, which differs between BLAS libraries. Adam divides the gradient by its own
// size, so the bias drifts by up to a learning rate a step. So does the running mean, which
// includes the bias. No loss and no other weight depends on the bias or the running mean. Only the
// amount that a batch adds to the running mean, minus that batch's bias, is well defined
// (tests/data/write_batch_means.py).
bool follows_noise(const std::string& name) {
  return name == "module.0.bias" || name == "module.1.running_mean";
}

class Replay {
 public:
  // Replays the run `name` in the folder `runs`. Before 0.10, Composer's schedulers stepped after
  // the time had advanced. Before 0.10.1, the average was never saved as the model.
  explicit Replay(const std::string& name, const std::string& runs = kFolder)
      : losses_(recorded_losses(runs + name)),
        batch_means_(recorded_batch_means(runs, name)),
        name_(name),
        run_(runs + name + "/"),
        is_before_010_(runs.ends_with("v0.7.1/")) {
    torch::nn::Sequential net(torch::nn::Linear(8, 16), torch::nn::BatchNorm1d(16),
                              torch::nn::ReLU(), torch::nn::Linear(16, 4));
    state_.model = classifier(net, {.num_classes = 4});
    state_.max_duration = "3ep";
    state_.dataloader_len = kBatchesPerEpoch;
    if (!is_before_010_) state_.callbacks = {std::make_shared<SaverOfEveryBatch>()};
    const Value data = load((runs == kFolder ? kFolder : kReleases) + "data.pt");
    constexpr std::int64_t kSamples = kBatchSize * kBatchesPerEpoch;
    x_ = tensor_of(data.at("x").as_tensor()).slice(0, 0, kSamples);
    y_ = tensor_of(data.at("y").as_tensor()).slice(0, 0, kSamples);
    configure();
    fire(Event::kInit);
  }

  void load_from(const std::string& checkpoint) {
    load_checkpoint(run_ + checkpoint + "-rank0.pt", state_, logger_);
  }
  void run_from(const std::string& checkpoint, std::int64_t last = kComposerBatches) {
    load_from(checkpoint);
    while (state_.timestamp.batch < last) {
      const std::size_t batch = state_.timestamp.batch;
      const double loss = train_batch();
      if (!losses_.empty()) {
        EXPECT_NEAR(loss, losses_.at(batch), 1e-5) << name_ << " batch " << batch;
      }
    }
  }

  void expect_final_weights() {
    const Value expected = load(run_ + "final_weights.pt");
    const Value found = state_dict(state_.model->module());
    ASSERT_EQ(found.as_dict().size(), expected.as_dict().size());
    for (const auto& [key, value] : expected.as_dict()) {
      const at::Tensor difference = tensor_of(found.at(key.as_str()).as_tensor()).to(at::kDouble) -
                                    tensor_of(value.as_tensor());
      const bool drifts = name_ != "sgdw_linear" && follows_noise(key.as_str());
      EXPECT_LE(difference.abs().max().item<double>(), drifts ? 2 * largest_drift_ : 1e-5)
          << name_ << " " << key.as_str();
    }
  }

  const State& state() const { return state_; }

 private:
  void configure() {
    if (name_ == "adamw_cosine") {
      optimize(DecoupledAdamW({.lr = 0.02, .betas = {0.9, 0.95}, .weight_decay = 1e-4}));
      schedule(CosineAnnealingWithWarmupScheduler({.t_warmup = "3ba", .t_max = "3ep"}));
      add(GradientClipping({.clipping_type = "norm", .clipping_threshold = 0.5}));
    } else if (name_ == "sgdw_linear") {
      optimize(DecoupledSGDW({.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-4, .nesterov = true}));
      schedule(LinearScheduler());
      add(LabelSmoothing({.smoothing = 0.1}));
    } else if (name_ == "adam_steplr") {
      optimize(Adam({.lr = 0.01}));
      state_.schedulers.push_back(
          StepLR({.step_size = 1, .gamma = 0.5}).attach(*state_.optimizer, 1));
    } else {
      optimize(AdamW({.lr = 0.01}));
      schedule(LinearScheduler());
      add(EMA({.half_life = "4ba", .update_interval = "1ba"}));
    }
  }

  void optimize(const OptimizerRecipe& recipe) {
    state_.optimizer = recipe.create(state_.model->module().parameters());
  }
  template <class Scheduler>
  void schedule(Scheduler scheduler) {
    scheduler_ = std::make_shared<Scheduler>(std::move(scheduler));
    state_.schedulers.push_back(attach_lambda_lr(*scheduler_, state_, *state_.optimizer, 1));
  }
  template <class A>
  void add(A algorithm) {
    state_.algorithms.push_back(std::make_shared<A>(std::move(algorithm)));
  }
  // Row 0: the bias before the BatchNorm. Row 1: the running mean.
  at::Tensor drifting() const {
    const Value weights = state_dict(state_.model->module());
    return torch::stack({tensor_of(weights.at("module.0.bias").as_tensor()),
                         tensor_of(weights.at("module.1.running_mean").as_tensor())})
        .to(at::kDouble);
  }
  void expect_batch_mean(const at::Tensor& before, const at::Tensor& after) const {
    const at::Tensor taken_in = (after[1] - 0.9 * before[1]) / 0.1 - before[0];
    const at::Tensor difference = taken_in - batch_means_[state_.timestamp.batch - 3];
    EXPECT_LE(difference.abs().max().item<double>(), 1e-5)
        << name_ << " batch " << state_.timestamp.batch;
  }
  // EMA puts the average of the earlier weights and the trained weights into the model.
  void expect_average(const at::Tensor& before, const at::Tensor& trained) const {
    if (name_ != "ema" || is_before_010_) return;
    const double keep = std::exp2(-1.0 / 4);  // half_life is 4ba.
    const at::Tensor difference = drifting() - (keep * before + (1 - keep) * trained);
    EXPECT_LE(difference.abs().max().item<double>(), 1e-6) << "batch " << state_.timestamp.batch;
  }

  void fire(Event event) {
    for (const auto& algorithm : state_.algorithms) {
      if (algorithm->match(event, state_)) algorithm->apply(event, state_, logger_);
    }
  }

  Batch next_batch() const {
    at::Generator generator =
        at::detail::createCPUGenerator(state_.rank_zero_seed + state_.timestamp.epoch);
    const at::Tensor order = torch::randperm(x_.size(0), generator);
    const std::int64_t begin = state_.timestamp.batch_in_epoch * kBatchSize;
    const at::Tensor rows = order.slice(0, begin, begin + kBatchSize);
    return {x_.index_select(0, rows), y_.index_select(0, rows)};
  }

  void step_schedulers() {
    for (const auto& scheduler : state_.schedulers) {
      scheduler->step();
    }
  }

  double train_batch() {
    if (state_.timestamp.batch_in_epoch == kBatchesPerEpoch) {
      state_.timestamp = state_.timestamp.to_next_epoch();
      fire(Event::kEpochEnd);
    }
    state_.batch = next_batch();
    const at::Tensor average = drifting();
    fire(Event::kBatchStart);
    const at::Tensor before = drifting();
    state_.optimizer->zero_grad();
    state_.outputs = state_.model->forward(state_.batch);
    expect_batch_mean(before, drifting());
    fire(Event::kBeforeLoss);
    const at::Tensor loss = state_.model->loss(state_.outputs, state_.batch).single();
    fire(Event::kAfterLoss);
    loss.backward();
    fire(Event::kAfterTrainBatch);
    largest_drift_ += kLargestAdamStep * state_.optimizer->param_groups().at(0).options().get_lr();
    state_.optimizer->step();
    if (!is_before_010_) step_schedulers();
    state_.previous_timestamp = state_.timestamp;
    state_.timestamp = state_.timestamp.to_next_batch(kBatchSize, 0, {});
    if (is_before_010_) step_schedulers();
    fire(Event::kBatchEnd);
    const at::Tensor trained = drifting();
    fire(Event::kBatchCheckpoint);
    expect_average(average, trained);
    return loss.item<double>();
  }

  State state_;
  Logger logger_{state_};
  std::vector<double> losses_;
  at::Tensor batch_means_;
  double largest_drift_ = 0;
  std::string name_;
  std::string run_;
  bool is_before_010_;
  std::shared_ptr<ComposerScheduler> scheduler_;
  at::Tensor x_, y_;
};

class ComposerReplayTest : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(ComposerReplayTest, ReproducesEveryLossAndTheFinalWeights) {
  const auto [name, checkpoint] = GetParam();
  Replay replay(name);
  replay.run_from(checkpoint);
  replay.expect_final_weights();
}

INSTANTIATE_TEST_SUITE_P(All, ComposerReplayTest,
                         ::testing::Combine(::testing::Values("adamw_cosine", "sgdw_linear",
                                                              "adam_steplr", "ema"),
                                            ::testing::Values("ep0-ba3", "ep0-ba5", "ep1-ba8")),
                         [](const auto& made) {
                           std::string name =
                               std::string(std::get<0>(made.param)) + "_" + std::get<1>(made.param);
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

// --- Older releases ------------------------------------------------------------------------------

class OldComposer
    : public ::testing::TestWithParam<std::tuple<const char*, const char*, const char*>> {};

TEST_P(OldComposer, EndsWithItsFinalWeights) {
  const auto [release, name, checkpoint] = GetParam();
  Replay replay(name, kReleases + release + "/");
  replay.run_from(checkpoint);
  replay.expect_final_weights();
}

INSTANTIATE_TEST_SUITE_P(
    All, OldComposer,
    ::testing::Combine(::testing::Values("v0.7.1", "v0.10.1", "v0.13.5", "v0.17.2", "v0.25.0"),
                       ::testing::Values("adamw_cosine", "sgdw_linear", "adam_steplr", "ema"),
                       ::testing::Values("ep0-ba3", "ep1-ba8")),
    [](const auto& made) {
      std::string name = std::string(std::get<0>(made.param)) + "_" + std::get<1>(made.param) +
                         "_" + std::get<2>(made.param);
      std::ranges::replace(name, '-', '_');
      std::ranges::replace(name, '.', '_');
      return name;
    });

// Composer 0.7 stores the average by position. The average must continue as it did in Composer 0.7.
TEST(OldComposerEma, AverageOf07GoesOn) {
  const std::string runs = kReleases + "v0.7.1/";
  for (const char* start : {"ep0-ba3", "ep0-ba5"}) {
    Replay replay("ema", runs);
    replay.run_from(start, 8);
    const Value saved = load(runs + "ema/ep1-ba8-rank0.pt").at("state");
    const Value& expected = *find_path(saved, "algorithms/EMA/ema_model");
    const Value now = replay.state().algorithms.at(0)->state_dict();
    EXPECT_FALSE(now.at("ema_weights_active").as_bool());
    const Value& average = now.at("ema_model");
    const auto compare = [&](const char* key, const char* old_key) {
      std::size_t i = 0;
      for (const auto& [name, tensor] : average.at(key).as_dict()) {
        const at::Tensor before = tensor_of(expected.at(old_key).as_items().at(i++).as_tensor());
        if (follows_noise(name.as_str())) continue;
        EXPECT_TRUE(torch::allclose(tensor_of(tensor.as_tensor()), before, 1e-4, 1e-5))
            << start << " " << name.as_str();
      }
      EXPECT_EQ(i, expected.at(old_key).as_items().size());
    };
    compare("named_parameters_dict", "parameters");
    compare("named_buffers_dict", "buffers");
  }
}

TEST(ComposerReplayStateTest, GradientOfTheFirstBiasIsRoundingAlone) {
  for (const std::string name : {"adamw_cosine", "adam_steplr", "ema"}) {
    const Value saved = load(kFolder + name + "/ep2-ba15-rank0.pt");
    const Value& optimizers = saved.at("state").at("optimizers");
    const Value& states = optimizers.as_dict().begin()->second.at("state");
    const auto mean_gradient = [&](const char* parameter) {
      return tensor_of(states.at(parameter).at("exp_avg").as_tensor()).abs().max().item<double>();
    };
    EXPECT_LT(mean_gradient("module.0.bias"), 1e-7) << name;
    EXPECT_GT(mean_gradient("module.0.weight"), 1e-3) << name;
  }
}

void expect_same_scheduler(const Value& found, const Value& expected) {
  EXPECT_EQ(found.at("last_epoch"), expected.at("last_epoch"));
  EXPECT_EQ(found.at("_step_count"), expected.at("_step_count"));
  EXPECT_EQ(found.at("base_lrs"), expected.at("base_lrs"));
  EXPECT_NEAR(found.at("_last_lr").as_items()[0].as_float(),
              expected.at("_last_lr").as_items()[0].as_float(), 1e-12);
}

void expect_close_tensors(const Value& found, const Value& expected) {
  for (const auto& [path, tensor] : tensors_of(expected)) {
    const Value* own = find_path(found, path);
    ASSERT_NE(own, nullptr) << path;
    EXPECT_TRUE(torch::allclose(tensor_of(own->as_tensor()), tensor_of(*tensor), 1e-4, 1e-5))
        << path;
  }
}

// At the end, the state of optimizer, scheduler and EMA equals the state that Composer saved.
TEST(ComposerReplayStateTest, EndsWithComposersStates) {
  for (const char* name : {"adamw_cosine", "sgdw_linear", "adam_steplr", "ema"}) {
    Replay replay(name);
    replay.run_from("ep0-ba3");
    const Value saved = load(kFolder + name + "/ep2-ba15-rank0.pt").at("state");
    const Value found = replay.state().state_dict();
    SCOPED_TRACE(name);
    const auto& [scheduler, schedule] = *saved.at("schedulers").as_dict().begin();
    expect_same_scheduler(found.at("schedulers").at(scheduler.as_str()), schedule);
    const auto& [optimizer, moments] = *saved.at("optimizers").as_dict().begin();
    expect_close_tensors(found.at("optimizers").at(optimizer.as_str()), moments);
  }
}

}  // namespace
}  // namespace cairn
