// Algorithms in a Trainer: a run that resumes from any of its batches ends with the bits of an
// undisturbed one.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>
#include <functional>
#include <string>

#include "cairn/algorithms/cutmix.h"
#include "cairn/algorithms/cutout.h"
#include "cairn/algorithms/layer_freezing.h"
#include "cairn/algorithms/mixup.h"
#include "cairn/algorithms/no_op_model.h"
#include "cairn/algorithms/progressive_resizing.h"
#include "cairn/algorithms/sam.h"
#include "cairn/algorithms/selective_backprop.h"
#include "cairn/algorithms/swa.h"
#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"
#include "cairn/optim/optimizers.h"
#include "cairn/schedulers/schedulers.h"
#include "cairn/train/trainer.h"

#include "testing/resumable_state.h"
#include "testing/temp_folder.h"
#include "testing/tiny_model.h"

namespace cairn {
namespace {

using testing::CallAt;
using testing::tiny_loader;

constexpr std::int64_t kBatches = 12;  // 4 epochs of 3

struct AlgorithmSetup {
  const char* name;
  std::function<HandleList<Algorithm>()> make;
};

// Images of 8 x 8, made of the 4 features.
torch::nn::Sequential image_net() {
  torch::manual_seed(3);
  return torch::nn::Sequential(torch::nn::Conv2d(1, 4, 3), torch::nn::BatchNorm2d(4),
                               torch::nn::ReLU(), torch::nn::AdaptiveAvgPool2d(2),
                               torch::nn::Flatten(), torch::nn::Dropout(0.2),
                               torch::nn::Linear(16, 8), torch::nn::Linear(8, 3));
}

TrainerOptions image_options(const AlgorithmSetup& setup, std::int64_t seed) {
  TrainerOptions options = testing::tiny_options();
  options.model = classifier(image_net());
  DataSpec data{.dataloader = tiny_loader(12, {.batch_size = 4, .shuffle = true})};
  data.batch_transforms = [](const Batch& batch) {
    const at::Tensor images = batch[0].to(at::kFloat).reshape({-1, 1, 2, 2});
    return Batch{images.repeat({1, 1, 4, 4}), batch[1]};
  };
  options.train_dataloader = data;
  options.optimizers = DecoupledSGDW({.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-3});
  options.schedulers = CosineAnnealingScheduler();
  options.algorithms = setup.make();
  options.max_duration = "4ep";
  options.seed = seed;
  options.run_name = "images";
  return options;
}

const AlgorithmSetup kAlgorithmSetups[] = {
    {"MixUp", [] { return HandleList<Algorithm>{MixUp()}; }},
    {"MixUpOfLosses",
     [] { return HandleList<Algorithm>{MixUp({.alpha = 0.9, .interpolate_loss = true})}; }},
    {"CutMix", [] { return HandleList<Algorithm>{CutMix()}; }},
    {"CutOut", [] { return HandleList<Algorithm>{CutOut({.uniform_sampling = true})}; }},
    {"SWA",
     [] { return HandleList<Algorithm>{SWA({.swa_start = "0.25dur", .swa_end = "0.75dur"})}; }},
    {"SWAOfBatches",
     [] {
       return HandleList<Algorithm>{SWA({.swa_start = "0.2dur",
                                         .swa_end = "0.9dur",
                                         .update_interval = "2ba",
                                         .schedule_swa_lr = true,
                                         .anneal_strategy = "cos",
                                         .anneal_steps = 2,
                                         .swa_lr = 0.05})};
     }},
    {"LayerFreezing", [] { return HandleList<Algorithm>{LayerFreezing({.freeze_start = 0.1})}; }},
    {"ProgressiveResizing",
     [] {
       return HandleList<Algorithm>{
           ProgressiveResizing({.mode = "crop", .delay_fraction = 0.2, .size_increment = 1})};
     }},
    {"SAM", [] { return HandleList<Algorithm>{SAM({.rho = 0.5, .interval = 2})}; }},
    {"SelectiveBackprop",
     [] { return HandleList<Algorithm>{SelectiveBackprop({.start = 0.0, .end = 1.0})}; }},
    {"Several",
     [] {
       return HandleList<Algorithm>{MixUp(), CutOut(),
                                    SelectiveBackprop({.start = 0.5, .end = 1.0}),
                                    SWA({.swa_start = "1ep", .swa_end = "3ep"})};
     }},
};

class AlgorithmResume : public ::testing::TestWithParam<AlgorithmSetup> {
 protected:
  // Saves to "<folder>/<batch>.pt" after each batch.
  at::Tensor run_whole() {
    TrainerOptions options = image_options(GetParam(), 17);
    Trainer* running = nullptr;
    options.callbacks.push_back(CallAt(Event::kBatchCheckpoint, [&](State& state) {
      running->save_checkpoint(path(state.timestamp.batch));
    }));
    Trainer trainer(std::move(options));
    running = &trainer;
    trainer.fit();
    trainer.save_checkpoint(path(0));
    return testing::weights_of(*trainer.state().model).clone();
  }
  std::string path(std::int64_t batch) const { return folder_ / (std::to_string(batch) + ".pt"); }

  testing::TempFolder folder_;
};

TEST_P(AlgorithmResume, FromAnyBatchEndsWithTheSameBits) {
  const at::Tensor expected = run_whole();
  const Value at_end = testing::resumable_state(load(path(0)));
  for (std::int64_t batch = 1; batch < kBatches; ++batch) {
    TrainerOptions options = image_options(GetParam(), 1000 + batch);
    options.load_path = path(batch);
    Trainer trainer(std::move(options));
    trainer.fit();
    trainer.save_checkpoint(folder_ / "resumed.pt");
    SCOPED_TRACE("resumed after batch " + std::to_string(batch));
    EXPECT_TRUE(at::equal(testing::weights_of(*trainer.state().model), expected));
    const Value found = testing::resumable_state(load(folder_ / "resumed.pt"));
    for (const char* key : {"model", "optimizers", "algorithms", "rng"})
      EXPECT_TRUE(found.at(key) == at_end.at(key)) << key;
    std::filesystem::remove(folder_ / "resumed.pt");
  }
}

// Otherwise the test above would say nothing.
TEST_P(AlgorithmResume, TheAlgorithmChangesTheRun) {
  const AlgorithmSetup none{"none", [] { return HandleList<Algorithm>(); }};
  TrainerOptions options = image_options(none, 17);
  Trainer trainer(std::move(options));
  trainer.fit();
  EXPECT_FALSE(at::equal(testing::weights_of(*trainer.state().model), run_whole()));
}

INSTANTIATE_TEST_SUITE_P(All, AlgorithmResume, ::testing::ValuesIn(kAlgorithmSetups),
                         [](const auto& each) { return std::string(each.param.name); });

// --- In a Trainer
// ---------------------------------------------------------------------------------

TEST(SamInATrainer, WithoutALengthTrainsAsWithoutSam) {
  const auto train = [](HandleList<Algorithm> algorithms) {
    TrainerOptions options = testing::tiny_options();
    options.algorithms = std::move(algorithms);
    options.seed = 3;
    Trainer trainer(std::move(options));
    trainer.fit();
    return testing::weights_of(*trainer.state().model).clone();
  };
  EXPECT_TRUE(train({}).equal(train({SAM({.rho = 0})})));
  EXPECT_FALSE(train({}).equal(train({SAM({.rho = 0.5})})));
}

// The losses of the second pass, at other weights, are not logged.
TEST(SamInATrainer, EvaluatesABatchTwiceAndLogsTheFirstLoss) {
  const auto first_loss = [](HandleList<Algorithm> algorithms, std::int64_t forwards) {
    auto logged = std::make_shared<testing::LogRecorder>();
    auto events = std::make_shared<testing::EventRecorder>();
    TrainerOptions options = testing::tiny_options();
    options.algorithms = std::move(algorithms);
    options.loggers = {logged};
    options.callbacks = {events};
    options.max_duration = "3ba";
    options.device_train_microbatch_size = 1;  // Two microbatches of one sample.
    options.seed = 3;
    Trainer trainer(std::move(options));
    trainer.fit();
    EXPECT_EQ(events->count("before_forward"), forwards);
    return logged->values("loss/train/total").front();
  };
  EXPECT_EQ(first_loss({}, 6), first_loss({SAM({.rho = 2})}, 12));
  first_loss({SAM({.interval = 2})}, 8);
}

TEST(SamInATrainer, RefusesWhatEvaluatesABatchAgain) {
  TrainerOptions options = testing::tiny_options();
  options.algorithms = {SAM()};
  options.optimizers = LBFGS({.lr = 0.1});
  EXPECT_THROW(Trainer(std::move(options)).fit(), UnsupportedError);
  TrainerOptions twice = testing::tiny_options();
  twice.algorithms = {SAM(), SAM()};
  EXPECT_THROW(Trainer(std::move(twice)).fit(), Error);
}

TEST(NoOpModelInATrainer, TakesTheModelsPlaceAndLearnsItsOneWeight) {
  TrainerOptions options = testing::tiny_options();
  options.algorithms = {NoOpModel()};
  DataSpec data{.dataloader = tiny_loader(10)};
  data.batch_transforms = [](const Batch& batch) {
    return Batch{batch[0], batch[1].clamp_max(1)};  // BinaryAccuracy's classes
  };
  options.train_dataloader = data;
  options.optimizers = DecoupledSGDW({.lr = 0.1});
  options.max_duration = "20ba";
  Trainer trainer(std::move(options));
  trainer.fit();
  const at::Tensor weights = testing::weights_of(*trainer.state().model);
  ASSERT_EQ(weights.numel(), 1);
  EXPECT_LT(std::abs(weights.item<double>() - 1), 0.4);
  EXPECT_EQ(trainer.state().train_metrics.front().first, "BinaryAccuracy");
}

}  // namespace
}  // namespace cairn
