// Runs that Composer up to 0.9 began, continued by the Trainer. As in those releases, schedulers
// step after the time has advanced, and EMA ends with the trained weights.
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <tuple>

#include "cairn/algorithms/ema.h"
#include "cairn/algorithms/gradient_clipping.h"
#include "cairn/algorithms/label_smoothing.h"
#include "cairn/checkpoint/checkpoint.h"
#include "cairn/optim/optimizers.h"
#include "cairn/schedulers/schedulers.h"
#include "cairn/schedulers/torch_schedulers.h"
#include "cairn/train/state_dict.h"
#include "cairn/train/trainer.h"

#include "testing/temp_folder.h"
#include "testing/tiny_model.h"

namespace cairn {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using testing::LogRecorder;
using ::testing::Not;

const std::string kRecordedRuns = CAIRN_TEST_DATA "/composer-releases/";

// The recorded run `name` (tests/data/README.md), of 3 epochs of 5 batches.
TrainerOptions recorded_options(const std::string& name) {
  TrainerOptions made = testing::tiny_options();
  torch::nn::Sequential net(torch::nn::Linear(8, 16), torch::nn::BatchNorm1d(16), torch::nn::ReLU(),
                            torch::nn::Linear(16, 4));
  made.model = classifier(net, {.num_classes = 4});
  const Value data = load(kRecordedRuns + "data.pt");
  const auto rows = [&](const char* key) {
    return tensor_of(data.at(key).as_tensor()).slice(0, 0, 40).clone();
  };
  made.train_dataloader = DataLoader(tensor_dataset({rows("x"), rows("y")}),
                                     {.batch_size = 8, .shuffle = true, .seed = 5});
  made.max_duration = "3ep";
  made.step_schedulers_every_batch = true;
  if (name == "adamw_cosine") {
    made.optimizers = DecoupledAdamW({.lr = 0.02, .betas = {0.9, 0.95}, .weight_decay = 1e-4});
    made.schedulers = CosineAnnealingWithWarmupScheduler({.t_warmup = "3ba", .t_max = "3ep"});
    made.algorithms = GradientClipping({.clipping_type = "norm", .clipping_threshold = 0.5});
  } else if (name == "sgdw_linear") {
    made.optimizers =
        DecoupledSGDW({.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-4, .nesterov = true});
    made.schedulers = LinearScheduler();
    made.algorithms = LabelSmoothing({.smoothing = 0.1});
  } else if (name == "adam_steplr") {
    made.optimizers = Adam({.lr = 0.01});
    made.schedulers = StepLR({.step_size = 1, .gamma = 0.5});
  } else {
    made.optimizers = AdamW({.lr = 0.01});
    made.schedulers = LinearScheduler();
    made.algorithms = EMA({.half_life = "4ba", .update_interval = "1ba"});
  }
  return made;
}

std::string path_of(const std::string& release, const std::string& name, const char* checkpoint) {
  return kRecordedRuns + release + "/" + name + "/" + checkpoint + "-rank0.pt";
}

// Compares weights within 1e-5. With Adam, leaves out the bias before a BatchNorm and the running
// mean that includes this bias. The gradient of the bias is only rounding, which Adam divides by
// the size of the gradient (composer_replay_test).
void expect_close(const Value& found, const Value& expected, bool is_adam) {
  for (const auto& [key, value] : expected.as_dict()) {
    const std::string& weight = key.as_str();
    if (is_adam && (weight == "module.0.bias" || weight == "module.1.running_mean")) continue;
    const at::Tensor difference =
        tensor_of(found.at(weight).as_tensor()).to(at::kDouble) - tensor_of(value.as_tensor());
    EXPECT_LE(difference.abs().max().item<double>(), 1e-5) << weight;
  }
}

struct OldComposerRun
    : ::testing::TestWithParam<std::tuple<const char*, const char*, const char*>> {
  void SetUp() override { std::tie(release, name, checkpoint) = GetParam(); }

  TrainerOptions options() const {
    TrainerOptions made = recorded_options(name);
    made.load_path = path_of(release, name, checkpoint);
    made.loggers = log;
    return made;
  }
  Value final_weights() const {
    return load(kRecordedRuns + release + "/" + name + "/final_weights.pt");
  }
  // Trains, and returns the weights that a user has at the end.
  Value train(TrainerOptions made) const {
    Trainer trainer(std::move(made));
    trainer.fit();
    EXPECT_EQ(trainer.state().timestamp.batch, 15);
    return load_copy(state_dict(trainer.state().model->module()));
  }
  Value load_copy(const Value& live) const {
    save(live, folder / "weights.pt", {.overwrite = true});
    return load(folder / "weights.pt");
  }
  bool is_adam() const { return std::string(name) != "sgdw_linear"; }
  bool is_before_010() const { return std::string(release) == "v0.7.1"; }
  bool is_function_of_time() const { return std::string(name) != "adam_steplr"; }

  const char* release = nullptr;
  const char* name = nullptr;
  const char* checkpoint = nullptr;
  testing::TempFolder folder;
  std::shared_ptr<LogRecorder> log = std::make_shared<LogRecorder>();
};

TEST_P(OldComposerRun, EndsWithTheWeightsOfTheRelease) {
  TrainerOptions made = options();
  // Whether EMA ends with the average depends on this folder.
  if (!is_before_010()) made.save_folder = folder / "ckpt";
  expect_close(train(std::move(made)), final_weights(), is_adam());
  const auto says = Contains(HasSubstr("stepped schedulers after the time had advanced"));
  if (is_before_010() && is_function_of_time()) {
    EXPECT_THAT(log->messages, says);
  } else {
    EXPECT_THAT(log->messages, Not(says));
  }
}

TEST_P(OldComposerRun, GoesOnFromItsOwnCheckpointsWithTheSameBits) {
  TrainerOptions made = options();
  made.run_name = "old";
  made.save_folder = folder / "whole";
  made.save_interval = "1ba";
  const Value whole = train(made);
  expect_close(whole, final_weights(), is_adam());

  made.model = options().model;
  made.algorithms = options().algorithms;
  made.save_folder = folder / "stopped";
  made.autoresume = true;
  made.callbacks = testing::CallAt(Event::kBatchStart, [](const State& state) {
    if (state.timestamp.batch == 11) throw std::runtime_error("stopped");
  });
  EXPECT_ANY_THROW(Trainer(made).fit());
  made.model = options().model;
  made.algorithms = options().algorithms;
  made.callbacks = {};
  EXPECT_EQ(train(std::move(made)), whole);
}

INSTANTIATE_TEST_SUITE_P(All, OldComposerRun,
                         ::testing::Combine(::testing::Values("v0.7.1", "v0.17.2"),
                                            ::testing::Values("adamw_cosine", "sgdw_linear",
                                                              "adam_steplr", "ema"),
                                            ::testing::Values("ep0-ba3", "ep1-ba8")),
                         [](const auto& made) {
                           std::string name = std::string(std::get<0>(made.param)) + "_" +
                                              std::get<1>(made.param) + "_" +
                                              std::get<2>(made.param);
                           std::ranges::replace(name, '-', '_');
                           std::ranges::replace(name, '.', '_');
                           return name;
                         });

// --- How the order of steps is recognized --------------------------------------------------------

struct StepsAfterTime : ::testing::Test {
  // Loads the checkpoint of Composer 0.7.1, changed by `edit`. Returns whether the Trainer then
  // steps schedulers after the time advances.
  bool of(const std::function<void(Dict& state)>& edit, TrainerOptions made) const {
    Value checkpoint = load(path_of("v0.7.1", "sgdw_linear", "ep1-ba8"));
    edit(checkpoint.mutable_dict()["state"].mutable_dict());
    save(checkpoint, folder / "edited.pt", {.overwrite = true});
    made.load_path = folder / "edited.pt";
    return Trainer(std::move(made)).state().schedulers_step_after_time;
  }
  bool of(const std::function<void(Dict& state)>& edit) const {
    return of(edit, recorded_options("sgdw_linear"));
  }
  static void set_rate(Dict& state, double rate) {
    Dict& schedulers = state["schedulers"].mutable_dict();
    schedulers["LambdaLR"].mutable_dict()["_last_lr"] = List{rate};
  }
  static TrainerOptions flat() {
    TrainerOptions made = recorded_options("sgdw_linear");
    made.schedulers = ConstantScheduler({.alpha = 0.5, .t_max = "100ep"});
    return made;
  }
  testing::TempFolder folder;
};

TEST_F(StepsAfterTime, IsShownByTheRate) {
  const auto named = [](double rate) {
    return [rate](Dict& state) {
      state["run_name"] = "mine";
      set_rate(state, rate);
    };
  };
  EXPECT_TRUE(of([](Dict&) {}));
  EXPECT_TRUE(of(named(0.1 * (1 - 8.0 / 15))));
  EXPECT_FALSE(of(named(0.1 * (1 - 7.0 / 15))));
  EXPECT_FALSE(of([](Dict& state) { set_rate(state, 0.1 * (1 - 7.0 / 15)); }));
}

TEST_F(StepsAfterTime, IsKnownByTheEntriesWhereTheRateIsFlat) {
  EXPECT_TRUE(of([](Dict& state) { set_rate(state, 0.05); }, flat()));
  EXPECT_FALSE(of(
      [](Dict& state) {
        set_rate(state, 0.05);
        state["run_name"] = "mine";
      },
      flat()));
}

TEST_F(StepsAfterTime, IsNothingOfACheckpointWithMetadata) {
  EXPECT_FALSE(of([](Dict& state) { state["metadata"] = Dict(); }));
}

TEST_F(StepsAfterTime, IsNothingOfWeightsAlone) {
  TrainerOptions made = recorded_options("sgdw_linear");
  made.load_weights_only = true;
  EXPECT_FALSE(of([](Dict&) {}, std::move(made)));
}

}  // namespace
}  // namespace cairn
