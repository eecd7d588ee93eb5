// One optimizer step: microbatches, weights of losses, metrics.

#include <gmock/gmock.h>

#include <cmath>

#include "cairn/error.h"
#include "cairn/optim/optimizers.h"
#include "cairn/train/trainer.h"

#include "testing/message_of.h"
#include "testing/tiny_model.h"

namespace cairn {
namespace {

using testing::CallAt;
using ::testing::DoubleNear;
using testing::LogRecorder;
using testing::tiny_loader;
using testing::tiny_options;
using testing::TinyModelOptions;

// Trains two batches of `batch_size` samples and returns the weights.
at::Tensor weights_after(std::optional<std::int64_t> microbatch_size, std::int64_t batch_size,
                         TinyModelOptions model = {}) {
  TrainerOptions options = tiny_options(model);
  options.train_dataloader = tiny_loader(20, {.batch_size = batch_size});
  options.device_train_microbatch_size = microbatch_size;
  options.max_duration = "2ba";
  Trainer trainer(std::move(options));
  trainer.fit();
  return testing::weights_of(*trainer.state().model);
}

TEST(Microbatches, GiveTheGradientOfTheWholeBatch) {
  const at::Tensor whole = weights_after(std::nullopt, 8);
  EXPECT_TRUE(at::equal(weights_after(8, 8), whole));
  EXPECT_TRUE(at::equal(weights_after(100, 8), whole));
  EXPECT_TRUE(at::allclose(weights_after(4, 8), whole, 1e-12, 1e-14));
  EXPECT_TRUE(at::allclose(weights_after(1, 8), whole, 1e-12, 1e-14));
  // Microbatches of 3, 3 and 2 samples: each counts by its samples.
  EXPECT_TRUE(at::allclose(weights_after(3, 8), whole, 1e-12, 1e-14));
  EXPECT_FALSE(at::allclose(weights_after(3, 7), whole, 1e-6, 1e-6));
}

TEST(Microbatches, LogTheLossOfTheWholeBatch) {
  const auto loss_with = [](std::int64_t microbatch_size) {
    TrainerOptions options = tiny_options();
    options.train_dataloader = tiny_loader(8, {.batch_size = 8});
    options.device_train_microbatch_size = microbatch_size;
    options.max_duration = "1ba";
    Trainer trainer(std::move(options));
    trainer.fit();
    return trainer.state().total_loss_dict.at("loss/train/total").as_float();
  };
  EXPECT_THAT(loss_with(3), DoubleNear(loss_with(8), 1e-12));
}

// A batch is not cut if no microbatch size is set, even if a row counts as several samples, or
// transforms change the number of rows.
TEST(Microbatches, AreNotMadeOfWhatNobodyAskedToCut) {
  DataSpec counted{.dataloader = tiny_loader(4, {.batch_size = 4})};
  counted.get_num_samples_in_batch = [](const Batch& batch) { return 2 * batch[0].size(0); };
  DataSpec doubled{.dataloader = tiny_loader(4, {.batch_size = 4})};
  doubled.batch_transforms = [](const Batch& batch) {
    return batch.map([](const at::Tensor& tensor) { return at::cat({tensor, tensor}); });
  };
  for (const DataSpec& data : {counted, doubled}) {
    std::int64_t forwards = 0;
    TrainerOptions options = tiny_options();
    options.train_dataloader = data;
    options.eval_dataloader = data;
    options.max_duration = "1ba";
    options.callbacks = {CallAt(Event::kAfterForward, [&](State&) { ++forwards; }),
                         CallAt(Event::kEvalAfterForward, [&](State&) { ++forwards; })};
    Trainer trainer(std::move(options));
    trainer.fit();
    EXPECT_EQ(forwards, 2);
    EXPECT_EQ(trainer.state().timestamp.sample, 8);
  }
}

TEST(Microbatches, CountByTokensWhenAsked) {
  const auto train = [](bool on_tokens) {
    TrainerOptions options = tiny_options();
    DataSpec data{.dataloader = tiny_loader(6, {.batch_size = 6})};
    // Later samples have more tokens.
    data.get_num_tokens_in_batch = [](const Batch& batch) {
      return batch[0].size(0) == 2 ? 10 : batch[0].size(0);
    };
    options.train_dataloader = data;
    options.device_train_microbatch_size = 4;
    options.accumulate_train_batch_on_tokens = on_tokens;
    options.max_duration = "1ba";
    Trainer trainer(std::move(options));
    trainer.fit();
    return testing::weights_of(*trainer.state().model);
  };
  EXPECT_FALSE(at::allclose(train(true), train(false), 1e-9, 1e-9));
}

TEST(Microbatches, OfABatchWithoutAnyTokenCountBySamples) {
  const auto train = [](bool on_tokens) {
    TrainerOptions options = tiny_options();
    DataSpec data{.dataloader = tiny_loader(8, {.batch_size = 8})};
    data.get_num_tokens_in_batch = [](const Batch&) { return 0; };
    options.train_dataloader = data;
    options.device_train_microbatch_size = 3;
    options.accumulate_train_batch_on_tokens = on_tokens;
    options.max_duration = "1ba";
    Trainer trainer(std::move(options));
    trainer.fit();
    return testing::weights_of(*trainer.state().model);
  };
  EXPECT_TRUE(at::equal(train(true), train(false)));
}

// The mean over no tokens is NaN.
TEST(Microbatches, WithoutAnyTokenAddNothing) {
  TrainerOptions options = tiny_options();
  DataSpec data{.dataloader = tiny_loader(8, {.batch_size = 8})};
  data.get_num_tokens_in_batch = [](const Batch& batch) {
    return batch[0].size(0) == 2 ? 0 : batch[0].size(0);
  };
  options.train_dataloader = data;
  options.device_train_microbatch_size = 3;  // Microbatches of 3, 3 and 2.
  options.accumulate_train_batch_on_tokens = true;
  options.max_duration = "1ba";
  options.callbacks = {CallAt(Event::kAfterLoss, [](State& state) {
    if (state.batch[0].size(0) == 2) state.loss = state.loss * NAN;
  })};
  Trainer trainer(std::move(options));
  trainer.fit();
  EXPECT_TRUE(testing::weights_of(*trainer.state().model).isfinite().all().item<bool>());
  EXPECT_TRUE(std::isfinite(trainer.state().total_loss_dict.at("loss/train/total").as_float()));
}

TEST(Microbatches, CannotCountByTokensWhereNothingCountsThem) {
  TrainerOptions options = tiny_options();
  options.train_dataloader = tiny_loader(8, {.batch_size = 8});
  options.device_train_microbatch_size = 3;
  options.accumulate_train_batch_on_tokens = true;
  Trainer trainer(std::move(options));
  EXPECT_THAT(testing::message_of<UsageError>([&] { trainer.fit(); }),
              ::testing::HasSubstr("get_num_tokens_in_batch"));
}

TEST(Microbatches, TheBatchIsWholeAgainAfterwards) {
  std::int64_t samples = 0;
  TrainerOptions options = tiny_options();
  options.train_dataloader = tiny_loader(8, {.batch_size = 8});
  options.device_train_microbatch_size = 3;
  options.callbacks = {
      CallAt(Event::kAfterTrainBatch, [&](State& state) { samples = state.batch[0].size(0); })};
  Trainer trainer(std::move(options));
  trainer.fit();
  EXPECT_EQ(samples, 8);
}

TEST(Losses, ByNameAreLoggedAndTheTotalIsTrained) {
  auto log = std::make_shared<LogRecorder>();
  TrainerOptions options = tiny_options({.by_name = true});
  options.loggers = {log};
  options.max_duration = "2ba";
  Trainer trainer(std::move(options));
  trainer.fit();
  const auto total = log->values("loss/train/total");
  const auto ce = log->values("loss/train/ce");
  const auto l2 = log->values("loss/train/l2");
  ASSERT_EQ(total.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i)
    EXPECT_NEAR(total[i], ce[i] + 0.01 * l2[i], 1e-12);
  EXPECT_FALSE(at::allclose(testing::weights_of(*trainer.state().model), weights_after({}, 2)));
}

TEST(Losses, BySeveralPositionsAreSummed) {
  struct TwoLosses : Model {
    TwoLosses() { net.register_parameter("w", at::ones({2})); }
    torch::nn::Module& module() override { return net; }
    Outputs forward(const Batch&) override { return net.parameters()[0]; }
    Losses loss(const Outputs& outputs, const Batch&) override {
      return {outputs.single() * 2, outputs.single().sum() * 3};
    }
    torch::nn::Module net;
  };
  auto log = std::make_shared<LogRecorder>();
  TrainerOptions options = tiny_options();
  options.model = std::make_shared<TwoLosses>();
  options.optimizers = SGD({.lr = 1.0});
  options.loggers = {log};
  options.max_duration = "1ba";
  Trainer trainer(std::move(options));
  trainer.fit();
  EXPECT_EQ(log->values("loss/train/loss0"), std::vector<double>{2});
  EXPECT_EQ(log->values("loss/train/loss1"), std::vector<double>{6});
  EXPECT_EQ(log->values("loss/train/total"), std::vector<double>{8});
  EXPECT_TRUE(at::equal(testing::weights_of(*trainer.state().model), at::full({2}, -3.0F)))
      << "1 - (2 / 2 + 3)";
}

TEST(Losses, AnAlgorithmMayReplaceTheLossBeforeBackward) {
  const at::Tensor before = testing::weights_of(*tiny_options().model);
  TrainerOptions options = tiny_options();
  options.callbacks = {
      CallAt(Event::kBeforeBackward, [](State& state) { state.loss = state.loss * 0; })};
  options.max_duration = "1ba";
  Trainer trainer(std::move(options));
  trainer.fit();
  EXPECT_TRUE(at::equal(testing::weights_of(*trainer.state().model), before));
  EXPECT_EQ(trainer.state().total_loss_dict.at("loss/train/total").as_float(), 0);
}

TEST(Losses, NoneIsAnError) {
  struct NoLoss : testing::TinyModel {
    Losses loss(const Outputs&, const Batch&) override { return {}; }
  };
  TrainerOptions options = tiny_options();
  options.model = std::make_shared<NoLoss>();
  Trainer trainer(std::move(options));
  EXPECT_THROW(trainer.fit(), UsageError);
}

TEST(TrainMetrics, AreOfTheLastBatchOnlyAndSeeEveryMicrobatch) {
  auto log = std::make_shared<LogRecorder>();
  double expected = 0;
  TrainerOptions options = tiny_options({.metrics = true});
  options.train_dataloader = tiny_loader(8, {.batch_size = 4});
  options.device_train_microbatch_size = 3;
  options.max_duration = "1ep";
  options.loggers = {log};
  auto sum = std::make_shared<double>(0);
  options.callbacks = {
      CallAt(Event::kBatchStart, [sum](State&) { *sum = 0; }),
      CallAt(Event::kAfterForward,
             [sum](State& state) { *sum += state.outputs.single().sum().item<double>(); }),
      CallAt(Event::kBatchEnd, [&, sum](State&) { expected = *sum / 12; })};
  Trainer trainer(std::move(options));
  trainer.fit();
  EXPECT_THAT(*trainer.state().metric_value("train", "MeanOutput"), DoubleNear(expected, 1e-12));
  EXPECT_EQ(log->values("metrics/train/MeanOutput").size(), 3U) << "per batch and at the epoch end";
}

TEST(TrainMetrics, RunTheModelInEvalModeAndBack) {
  std::vector<bool> training;
  struct Watching : testing::TinyModel {
    explicit Watching(std::vector<bool>& modes) : TinyModel({.metrics = true}), seen(modes) {}
    Outputs eval_forward(const Batch& batch, const Outputs* outputs) override {
      seen.push_back(module().is_training());
      return Model::eval_forward(batch, outputs);
    }
    std::vector<bool>& seen;
  };
  TrainerOptions options = tiny_options();
  options.model = std::make_shared<Watching>(training);
  options.max_duration = "2ba";
  Trainer trainer(std::move(options));
  trainer.fit();
  EXPECT_EQ(training, std::vector<bool>({false, false}));
  EXPECT_TRUE(trainer.state().model->module().is_training());
}

TEST(DataSpec, TransformsTheBatchAndEachMicrobatch) {
  std::vector<std::int64_t> sizes;
  TrainerOptions options = tiny_options();
  DataSpec data{.dataloader = tiny_loader(8, {.batch_size = 4})};
  data.batch_transforms = [&](Batch batch) {
    sizes.push_back(batch[0].size(0));
    return batch;
  };
  data.microbatch_transforms = [&](Batch batch) {
    sizes.push_back(batch[0].size(0));
    batch[0] = batch[0] * 0;
    return batch;
  };
  at::Tensor seen;
  options.train_dataloader = data;
  options.device_train_microbatch_size = 3;
  options.max_duration = "1ba";
  options.callbacks = {
      CallAt(Event::kBeforeForward, [&](State& state) { seen = state.batch[0].clone(); })};
  Trainer trainer(std::move(options));
  trainer.fit();
  EXPECT_EQ(sizes, (std::vector<std::int64_t>{4, 3, 1}));
  EXPECT_EQ(seen.abs().sum().item<double>(), 0);
}

}  // namespace
}  // namespace cairn
