// Checkpoints of Composer 0.33 (tests/data/composer-0.33) load in full. The checkpoint that cairn
// would write next equals the file.

#include <gmock/gmock.h>

#include "cairn/algorithms/ema.h"
#include "cairn/optim/optimizers.h"
#include "cairn/schedulers/schedulers.h"
#include "cairn/schedulers/torch_schedulers.h"
#include "cairn/train/rng.h"
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
using testing::TempFolder;
using testing::tiny_options;

struct Case {
  const char* folder;
  std::function<void(TrainerOptions&)> change;
};

void PrintTo(const Case& made, std::ostream* out) { *out << made.folder; }  // NOLINT: gtest's name

const Case kCases[] = {
    {"adamw_cosine",
     [](TrainerOptions& o) {
       o.optimizers = DecoupledAdamW({.lr = 0.02, .betas = {0.9, 0.95}, .weight_decay = 1e-4});
       o.schedulers = CosineAnnealingWithWarmupScheduler({.t_warmup = "3ba", .t_max = "3ep"});
     }},
    {"sgdw_linear",
     [](TrainerOptions& o) {
       o.optimizers =
           DecoupledSGDW({.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-4, .nesterov = true});
       o.schedulers = LinearScheduler();
     }},
    {"adam_steplr",
     [](TrainerOptions& o) {
       o.optimizers = Adam({.lr = 0.01});
       o.schedulers = StepLR({.step_size = 1, .gamma = 0.5});
       o.save_metrics = true;
     }},
    {"ema",
     [](TrainerOptions& o) {
       o.optimizers = AdamW({.lr = 0.01});
       o.schedulers = LinearScheduler();
       o.algorithms = EMA({.half_life = "4ba", .update_interval = "1ba"});
     }},
};

class ComposerCheckpoint : public ::testing::TestWithParam<Case> {
 protected:
  static TrainerOptions options() {
    TrainerOptions made = testing::tiny_options();
    made.model =
        classifier(torch::nn::Sequential(torch::nn::Linear(8, 16), torch::nn::BatchNorm1d(16),
                                         torch::nn::ReLU(), torch::nn::Linear(16, 4)),
                   {.num_classes = 4});
    made.max_duration = "3ep";
    GetParam().change(made);
    return made;
  }
  static std::string path(const std::string& name) {
    return std::string(CAIRN_TEST_DATA "/composer-0.33/") + GetParam().folder + "/" + name;
  }
};

INSTANTIATE_TEST_SUITE_P(Cases, ComposerCheckpoint, ::testing::ValuesIn(kCases),
                         [](const auto& each) { return std::string(each.param.folder); });

TEST_P(ComposerCheckpoint, LoadsInFullAndIsWrittenAgainTheSame) {
  for (const char* name :
       {"ep0-ba3-rank0.pt", "ep0-ba5-rank0.pt", "ep1-ba8-rank0.pt", "ep2-ba15-rank0.pt"}) {
    SCOPED_TRACE(name);
    const Value file = load(path(name));
    TrainerOptions made = options();
    made.load_path = path(name);
    Trainer trainer(std::move(made));
    const Value written = checkpoint_value(trainer.state(), {}).at("state");
    const Value& state = file.at("state");
    for (const char* key : {"model", "optimizers", "timestamp", "rank_zero_seed"}) {
      EXPECT_EQ(written.at(key), state.at(key)) << key;
    }
    for (const auto& [scheduler, entries] : state.at("schedulers").as_dict()) {
      EXPECT_EQ(written.at("schedulers").at(scheduler.as_str()), entries);
    }
    if (GetParam().folder == std::string("ema")) {
      EXPECT_EQ(*find_path(written, "algorithms/0/1/ema_model"),
                *find_path(state, "algorithms/0/1/ema_model"));
    }
  }
}

TEST_P(ComposerCheckpoint, RandomStatesAreRestoredAndCarriedOver) {
  const Value rng = load(path("ep0-ba3-rank0.pt")).at("rng");
  ASSERT_TRUE(restore_rng_states(rng));
  const Value now = rng_states();
  EXPECT_EQ(*find_path(now, "0/torch"), *find_path(rng, "0/torch"));
  EXPECT_EQ(*find_path(now, "0/python"), *find_path(rng, "0/python"));
  EXPECT_EQ(*find_path(now, "0/numpy/1"), *find_path(rng, "0/numpy/1"));
  EXPECT_EQ(find_path(now, "0/numpy/1")->as_ndarray().names, NumpyNames::kNumpy2);
  EXPECT_EQ(*find_path(now, "0/numpy/2"), *find_path(rng, "0/numpy/2"));
}

TEST_P(ComposerCheckpoint, WeightsLoadAlone) {
  torch::nn::Sequential net(torch::nn::Linear(8, 16), torch::nn::BatchNorm1d(16), torch::nn::ReLU(),
                            torch::nn::Linear(16, 4));
  const auto model = classifier(net);
  const Value weights = load(path("final_weights.pt"));
  load_state_dict(model->module(), weights);
  EXPECT_EQ(state_dict(model->module()), weights);
}

// --- Written by a Composer with other contents ---------------------------------------------------

struct ComposerFile : ::testing::Test {
  // A checkpoint inside an epoch, of a run with metrics, changed by `change`.
  std::string made(const TrainerOptions& options, const std::function<void(Dict& state)>& change) {
    TrainerOptions first = options;
    first.max_duration = "3ba";
    Trainer trainer(std::move(first));
    trainer.fit();
    Value file = load(trainer.save_checkpoint(folder / "own.pt"));
    change(file.mutable_dict()["state"].mutable_dict());
    save(file, folder / "changed.pt");
    return folder / "changed.pt";
  }
  TempFolder folder;
};

// Composer stores schedulers by class. Two schedulers of one class share one entry, and both load
// that entry.
TEST_F(ComposerFile, OneEntryOfTwoSchedulersIsForBoth) {
  TrainerOptions options = tiny_options();
  options.schedulers = {LinearScheduler(), ConstantScheduler()};
  auto log = std::make_shared<LogRecorder>();
  const std::string path = made(options, [](Dict& state) {
    EXPECT_TRUE(state["schedulers"].mutable_dict().erase("LambdaLR-1"));
  });
  options.model = tiny_options().model;
  options.load_path = path;
  options.loggers = {log};
  Trainer trainer(std::move(options));
  for (const auto& scheduler : trainer.state().schedulers) {
    EXPECT_EQ(scheduler->state_dict().at("last_epoch"), Value(3));
  }
  EXPECT_THAT(log->messages, Not(Contains(HasSubstr("LambdaLR"))));
}

TEST_F(ComposerFile, ComputedMetricsHaveTheTypeOfTheirComputation) {
  torch::nn::Sequential net(torch::nn::Linear(4, 3));
  TrainerOptions options = tiny_options();
  const auto x = torch::rand({10, 4});
  options.train_dataloader =
      DataLoader(tensor_dataset({x, torch::arange(10) % 3}), {.batch_size = 2});
  options.model = classifier(net, {.num_classes = 3});
  options.save_metrics = true;
  // The run has a callback so that it computes metrics.
  options.callbacks = {std::make_shared<testing::EventRecorder>()};
  made(options, [](Dict& state) {
    const Value& accuracy = state["train_metrics"].at("MulticlassAccuracy");
    EXPECT_EQ(accuracy.at("_computed").as_tensor().dtype, DType::kFloat32);
  });
  options.model = tiny_options({.metrics = true}).model;  // A mean of doubles.
  options.train_dataloader = tiny_options().train_dataloader;
  made(options, [](Dict& state) {
    const Value& mean = state["train_metrics"].at("MeanOutput");
    EXPECT_EQ(mean.at("_computed").as_tensor().dtype, DType::kFloat64);
  });
}

TEST_F(ComposerFile, MetricOfAnotherShapeIsRefusedWithTheWayOut) {
  torch::nn::Sequential net(torch::nn::Linear(4, 3));
  TrainerOptions options = tiny_options();
  options.train_dataloader =
      DataLoader(tensor_dataset({torch::rand({10, 4}), torch::arange(10) % 3}), {.batch_size = 2});
  options.model = classifier(net, {.num_classes = 3});
  options.save_metrics = true;
  options.load_path = made(options, [](Dict& state) {
    Dict& metric = state["train_metrics"].mutable_dict()["MulticlassAccuracy"].mutable_dict();
    metric["state_dict"].mutable_dict().set("tp", view_of(torch::zeros({3}, at::kLong)));
  });
  try {
    const Trainer trainer(options);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const MismatchError& error) {
    EXPECT_THAT(error.what(), HasSubstr("metric train/MulticlassAccuracy"));
    EXPECT_THAT(error.what(), HasSubstr("load_ignore_keys = {\"state/train_metrics*\"}"));
  }
  options.load_ignore_keys = {"state/train_metrics*"};
  EXPECT_NO_THROW(Trainer trainer(options));
}

// A StreamingDataset in Python keeps its position in dataset_state. After one more batch, that
// position would be wrong.
TEST_F(ComposerFile, PositionOfAPythonDatasetIsNotWrittenAgain) {
  const Value position = Dict{{"epoch", 0}, {"sample_in_epoch", 6}};
  TrainerOptions options = tiny_options();
  options.load_path = made(
      options, [&](Dict& state) { state["dataset_state"].mutable_dict().set("train", position); });
  options.max_duration = "4ba";
  Trainer trainer(std::move(options));
  EXPECT_EQ(trainer.state().dataset_state, position);
  trainer.fit();
  const Value saved = load(trainer.save_checkpoint(folder / "later.pt"));
  const Value* train = find_path(saved, "state/dataset_state/train");
  ASSERT_NE(train, nullptr);
  EXPECT_EQ(train->find("sample_in_epoch"), nullptr);
  EXPECT_NE(train->find("cairn"), nullptr);
}

// Python's and numpy's generators were seeded with the run's seed and never used. So the states of
// these generators are those that seed_all() makes.
TEST(ComposerSeed, GivesTheStatesThatPythonHas) {
  const Value file = load(CAIRN_TEST_DATA "/composer-0.33/ema/ep0-ba3-rank0.pt");
  seed_all(find_path(file, "state/rank_zero_seed")->as_int());
  const Value now = rng_states();
  EXPECT_EQ(*find_path(now, "0/python"), *find_path(file, "rng/0/python"));
  EXPECT_EQ(*find_path(now, "0/numpy"), *find_path(file, "rng/0/numpy"));
}

}  // namespace
}  // namespace cairn
