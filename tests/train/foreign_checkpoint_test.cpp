// Checkpoints with objects of classes that only Python knows. Checkpoints of Composer 0.10 to 0.13
// (tests/data/composer-releases) pickle torchmetrics.
#include <gmock/gmock.h>

#include "cairn/algorithms/ema.h"
#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"
#include "cairn/foreign.h"
#include "cairn/optim/optimizers.h"
#include "cairn/schedulers/torch_schedulers.h"
#include "cairn/train/state_dict.h"
#include "cairn/train/trainer.h"

#include "testing/temp_folder.h"
#include "testing/tiny_model.h"
#include "train/state/load/foreign_parts.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class MessageLogger final : public LoggerDestination {
 public:
  void log_message(const std::string& message) override { messages.push_back(message); }
  std::vector<std::string> messages;
};

TrainerOptions foreign_options(const std::string& load_path,
                               std::shared_ptr<MessageLogger> logger = nullptr) {
  TrainerOptions made = testing::tiny_options();
  made.model =
      classifier(torch::nn::Sequential(torch::nn::Linear(8, 16), torch::nn::BatchNorm1d(16),
                                       torch::nn::ReLU(), torch::nn::Linear(16, 4)),
                 {.num_classes = 4});
  const Value data = load(CAIRN_TEST_DATA "/composer-releases/data.pt");
  const auto rows = [&](const char* name) {
    return tensor_of(data.at(name).as_tensor()).slice(0, 0, 40);
  };
  made.train_dataloader =
      DataLoader(tensor_dataset({rows("x"), rows("y")}), {.batch_size = 8, .shuffle = true});
  made.max_duration = "3ep";
  made.optimizers = Adam({.lr = 0.01});
  made.schedulers = StepLR({.step_size = 1, .gamma = 0.5});
  made.save_metrics = true;
  made.load_path = load_path;
  if (logger) made.loggers = std::move(logger);
  return made;
}

std::string release_path(const std::string& release) {
  return CAIRN_TEST_DATA "/composer-releases/" + release + "/adam_steplr/ep1-ba8-rank0.pt";
}

class ForeignMetrics : public ::testing::TestWithParam<const char*> {};

TEST_P(ForeignMetrics, ArePassedOverWithOneLineAndAllElseIsLoaded) {
  const Value saved = load(release_path(GetParam())).at("state");
  const auto logger = std::make_shared<MessageLogger>();
  Trainer trainer(foreign_options(release_path(GetParam()), logger));
  EXPECT_THAT(logger->messages,
              ::testing::Contains(AllOf(HasSubstr("warning: state/train_metrics/"),
                                        HasSubstr("torchmetrics.classification.accuracy."),
                                        HasSubstr("passed over")))
                  .Times(1));
  const Value state = checkpoint_value(trainer.state(), {}).at("state");
  EXPECT_EQ(state.at("model"), saved.at("model"));
  // Those releases of Composer number the parameters.
  const Dict& numbered = saved.at("optimizers").at("Adam").at("state").as_dict();
  std::int64_t number = 0;
  for (const auto& [name, moments] : state.at("optimizers").at("Adam").at("state").as_dict()) {
    EXPECT_EQ(moments, *numbered.find(number++)) << name.as_str();
  }
  EXPECT_EQ(number, 6);
  EXPECT_EQ(state.at("schedulers").at("StepLR").at("last_epoch"),
            saved.at("schedulers").at("StepLR").at("last_epoch"));
  EXPECT_EQ(state.at("schedulers").at("StepLR").at("_last_lr"),
            saved.at("schedulers").at("StepLR").at("_last_lr"));
  EXPECT_EQ(trainer.state().timestamp.batch, 8);
  EXPECT_EQ(trainer.state().timestamp.epoch, 1);
  trainer.fit();
  EXPECT_EQ(trainer.state().timestamp.epoch, 3);
}

TEST_P(ForeignMetrics, DoNotStopWeightsFromLoadingAlone) {
  TrainerOptions made = foreign_options(release_path(GetParam()));
  made.load_weights_only = true;
  Trainer trainer(std::move(made));
  EXPECT_EQ(trainer.state().state_dict().at("model"),
            load(release_path(GetParam())).at("state").at("model"));
}

INSTANTIATE_TEST_SUITE_P(Composer, ForeignMetrics, ::testing::Values("v0.10.1", "v0.13.5"),
                         [](const auto& release) {
                           return std::string(release.index == 0 ? "V0_10" : "V0_13");
                         });

// A checkpoint with a foreign object at `path` below "state".
std::string with_foreign(const testing::TempFolder& temp, const std::vector<const char*>& keys) {
  Value checkpoint = load(release_path("v0.13.5"));
  checkpoint.mutable_dict()["state"].mutable_dict()["train_metrics"] = Dict();
  Value* at = &checkpoint.mutable_dict()["state"];
  for (const char* key : keys) {
    at = &at->mutable_dict()[key];
  }
  *at = Value(std::make_shared<const Foreign>(Foreign{.module = "os", .name = "system"}));
  const std::string path = temp / "foreign.pt";
  save(checkpoint, path, {.overwrite = true});
  return path;
}

TEST(ForeignParts, WhatTheRunNeedsIsAnErrorThatNamesKeyClassAndWayOut) {
  const testing::TempFolder temp;
  const std::vector<std::vector<const char*>> needed = {
      {"model"},      {"model", "module.0.weight"},
      {"optimizers"}, {"optimizers", "Adam", "state"},
      {"timestamp"},  {"schedulers", "StepLR", "gamma"},
      {"run_name"}};
  for (const auto& keys : needed) {
    std::string key = "state";
    for (const char* part : keys) {
      key += std::string("/") + part;
    }
    SCOPED_TRACE(key);
    const std::string path = with_foreign(temp, keys);
    try {
      Trainer trainer(foreign_options(path));
      ADD_FAILURE() << "was loaded";
    } catch (const UnsupportedError& e) {
      EXPECT_THAT(e.what(), AllOf(HasSubstr(path), HasSubstr(key + " is an object of os.system"),
                                  HasSubstr("load_ignore_keys"), HasSubstr("nothing was changed")));
    }
  }
}

TEST(ForeignParts, WhatTheRunDoesNotHaveIsPassedOver) {
  const testing::TempFolder temp;
  const std::vector<std::vector<const char*>> others = {{"callbacks", "SpeedMonitor"},
                                                        {"integrations"},
                                                        {"schedulers", "MyLR"},
                                                        {"optimizers", "Lion"}};
  for (const auto& keys : others) {
    const auto logger = std::make_shared<MessageLogger>();
    Trainer trainer(foreign_options(with_foreign(temp, keys), logger));
    EXPECT_EQ(trainer.state().timestamp.batch, 8);
    EXPECT_THAT(logger->messages, ::testing::Contains(HasSubstr("os.system")).Times(1));
  }
}

TEST(ForeignParts, LoadIgnoreKeysLeavesOutWhatWouldBeNeeded) {
  const testing::TempFolder temp;
  TrainerOptions made = foreign_options(with_foreign(temp, {"optimizers", "Adam", "state"}));
  made.load_ignore_keys = {"state/optimizers"};
  Trainer trainer(std::move(made));
  EXPECT_EQ(trainer.state().timestamp.batch, 8);
}

TEST(ForeignParts, AWholeModuleIsNoCheckpoint) {
  try {
    Trainer trainer(foreign_options(CAIRN_TEST_DATA "/torch-2.6/whole_module.pt"));
    ADD_FAILURE() << "was loaded";
  } catch (const UnsupportedError& e) {
    EXPECT_THAT(e.what(), HasSubstr("torch.nn.modules.linear.Linear"));
  }
}

TEST(ForeignParts, NumpysNumbersServeAsPythons) {
  const testing::TempFolder temp;
  Value checkpoint = load(release_path("v0.13.5"));
  Value& state = checkpoint.mutable_dict()["state"];
  NumpyScalar half;
  const double gamma = 0.25;
  std::memcpy(half.bytes.data(), &gamma, sizeof gamma);
  state.mutable_dict()["train_metrics"] = Dict();
  state.mutable_dict()["schedulers"].mutable_dict()["StepLR"].mutable_dict()["gamma"] = half;
  save(checkpoint, temp / "numpy.pt");
  Trainer trainer(foreign_options(temp / "numpy.pt"));
  EXPECT_EQ(*find_path(trainer.state().state_dict(), "schedulers/StepLR/gamma"), Value(0.25));
}

// Each object of a file is compared with all parts that the run needs. A file may have any number
// of entries under an algorithm's name, but the run requests only as many as it has such
// algorithms.
TEST(ForeignParts, AreComparedWithWhatTheRunHas) {
  TrainerOptions options = testing::tiny_options();
  options.algorithms = {std::make_shared<EMA>(EMAOptions{})};
  Trainer trainer(std::move(options));
  const Value entry = Tuple{{"EMA", Dict{}}};
  const Value many = Dict{{"algorithms", List(1000, entry)}};
  const std::vector<std::string> of_many = needed_parts(trainer.state(), many);
  EXPECT_THAT(of_many, ::testing::Contains("algorithms/0"));
  EXPECT_EQ(of_many, needed_parts(trainer.state(), Dict{{"algorithms", List{entry}}}));
}

// Lists that each hold the next list twice. A pickle of a few hundred bytes can hold such lists.
TEST(ForeignParts, NumbersOfNumpysInOneContainerAtManyPlacesAreReplacedOnce) {
  constexpr int kTimes = 18;
  Value doubled = List{NumpyScalar{}};
  for (int i = 0; i < kTimes; ++i) {
    doubled = List{doubled, doubled};
  }
  const Value plain = with_plain_numbers(Dict{{"a", doubled}, {"none", List{}}});
  const Value* level = &plain.at("a");
  for (int i = 0; i < kTimes; ++i) {
    ASSERT_EQ(level->as_items()[0].identity(), level->as_items()[1].identity()) << i;
    level = &level->as_items()[0];
  }
  EXPECT_EQ(level->as_items()[0].kind(), Kind::kFloat);
}

}  // namespace
}  // namespace cairn
