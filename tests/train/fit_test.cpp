// fit(): the order of events, how long training lasts, and how it ends.

#include <gmock/gmock.h>

#include <filesystem>
#include <stdexcept>

#include "cairn/algorithms/ema.h"
#include "cairn/error.h"
#include "cairn/optim/optimizers.h"
#include "cairn/train/trainer.h"

#include "testing/message_of.h"
#include "testing/temp_folder.h"
#include "testing/tiny_model.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using testing::CallAt;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using testing::EventRecorder;
using ::testing::HasSubstr;
using testing::LogRecorder;
using testing::message_of;
using testing::tiny_dataset;
using testing::tiny_loader;
using testing::tiny_options;
using Names = std::vector<std::string>;

Names operator+(Names a, const Names& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// The order of events was recorded with Composer: 1 epoch of 2 batches of 2 microbatches, with an
// evaluator of one batch.
TEST(FitEvents, ComeInComposersOrder) {
  auto events = std::make_shared<EventRecorder>();
  TrainerOptions options = tiny_options();
  options.train_dataloader = tiny_loader(4);
  options.device_train_microbatch_size = 1;
  options.eval_dataloader = tiny_loader(2);
  options.max_duration = 1;
  options.callbacks = {events};
  Trainer trainer(std::move(options));
  trainer.fit();
  trainer.close();

  const Names microbatch = {"before_forward", "after_forward",   "before_loss",
                            "after_loss",     "before_backward", "after_backward"};
  const Names batch =
      Names{"before_dataloader", "after_dataloader", "batch_start", "before_train_batch"} +
      microbatch + microbatch + Names{"after_train_batch", "batch_end", "batch_checkpoint"};
  const Names expected =
      Names{"init", "before_load", "after_load", "fit_start", "iteration_start", "epoch_start"} +
      batch + batch +
      Names{"before_dataloader",
            "epoch_end",
            "eval_before_all",
            "eval_start",
            "eval_batch_start",
            "eval_before_forward",
            "eval_after_forward",
            "eval_batch_end",
            "eval_end",
            "eval_after_all",
            "epoch_checkpoint",
            "fit_end",
            "close",
            "post_close"};
  EXPECT_THAT(events->events, ElementsAreArray(expected));
}

TEST(FitEvents, IterationsHaveEventsWhenTheyHaveALength) {
  auto events = std::make_shared<EventRecorder>();
  TrainerOptions options = tiny_options();
  options.max_duration = "4ep";
  options.callbacks = {events};
  Trainer trainer(std::move(options));
  trainer.state().iteration_length = Time("2ep");
  trainer.fit();
  EXPECT_EQ(events->count("iteration_start"), 2);
  EXPECT_EQ(events->count("iteration_end"), 2);
  EXPECT_EQ(events->count("iteration_checkpoint"), 2);
  EXPECT_EQ(trainer.state().timestamp.iteration, 2);
}

// Iterations may end inside an epoch. Then the epoch continues with its next batch.
TEST(FitIterations, InTokensLeaveTheEpochsAsTheyAre) {
  const auto train = [](bool in_iterations) {
    std::vector<double> first_features;
    TrainerOptions options = tiny_options();
    DataSpec data{.dataloader = tiny_loader(10, {.batch_size = 2, .shuffle = true})};
    data.get_num_tokens_in_batch = [](const Batch&) { return 10; };
    options.train_dataloader = data;
    options.max_duration = "3ep";
    options.callbacks = {CallAt(Event::kBatchStart, [&](State& state) {
      first_features.push_back(state.batch[0][0][0].item<double>());
    })};
    Trainer trainer(std::move(options));
    if (in_iterations) trainer.state().iteration_length = Time("30tok");
    trainer.fit();
    EXPECT_EQ(trainer.state().timestamp.batch, 15);
    EXPECT_EQ(trainer.state().timestamp.iteration, in_iterations ? 5 : 0);
    return first_features;
  };
  EXPECT_EQ(train(true), train(false));
}

// --- How long ------------------------------------------------------------------------------------

// A run that would never end is refused before training. The error names the missing option.
TEST(FitDuration, InIterationsNeedsTheirLength) {
  TrainerOptions options = tiny_options();
  options.max_duration = "1iter";
  Trainer trainer(std::move(options));
  EXPECT_THAT(message_of<UsageError>([&] { trainer.fit(); }), HasSubstr("iteration_length"));
  trainer.state().iteration_length = Time("3ba");
  EXPECT_THAT(message_of<UsageError>([&] { trainer.fit(); }), HasSubstr("3ba"));
  EXPECT_EQ(trainer.state().timestamp.batch, 0);
  trainer.state().iteration_length = Time("2ep");
  trainer.fit();
  EXPECT_EQ(trainer.state().timestamp.epoch, 2);
  EXPECT_EQ(trainer.state().timestamp.iteration, 1);
}

// If iteration_length is missing, intervals in iterations would never come, either.
void expect_needs_iteration_length(TrainerOptions options, const std::string& what) {
  options.max_duration = "2ep";
  Trainer trainer(std::move(options));
  EXPECT_THAT(message_of<UsageError>([&] { trainer.fit(); }),
              AllOf(HasSubstr(what + " is 1iter"), HasSubstr("iteration_length = \"2ep\"")));
  EXPECT_EQ(trainer.state().timestamp.batch, 0);
  trainer.state().iteration_length = Time("2ep");
  trainer.fit();
  EXPECT_EQ(trainer.state().timestamp.iteration, 1);
}

TEST(FitInterval, InIterationsNeedsTheirLength) {
  const testing::TempFolder folder;
  TrainerOptions saves = tiny_options();
  saves.save_folder = folder.path();
  saves.save_interval = "1iter";
  expect_needs_iteration_length(std::move(saves), "save_interval");
  EXPECT_TRUE(std::filesystem::exists(folder / "latest-rank0.pt"));

  std::int64_t evaluations = 0;
  TrainerOptions evaluates = tiny_options();
  evaluates.eval_dataloader = Evaluator{.label = "hard", .dataloader = tiny_loader(2)};
  evaluates.eval_interval = "1iter";
  evaluates.callbacks = {CallAt(Event::kEvalStart, [&](State&) { ++evaluations; })};
  expect_needs_iteration_length(std::move(evaluates), "eval_interval of 'hard'");
  EXPECT_EQ(evaluations, 1);

  TrainerOptions averages = tiny_options();
  averages.algorithms = EMA({.ema_start = "1iter"});
  expect_needs_iteration_length(std::move(averages), "ema_start");
}

TEST(FitInterval, OfZeroIterationsWaitsForNone) {
  TrainerOptions options = tiny_options();
  options.eval_dataloader = tiny_loader(2);
  options.eval_interval = "0iter";
  Trainer trainer(std::move(options));
  EXPECT_NO_THROW(trainer.fit());
}

TEST(FitDuration, InTokensNeedsBatchesThatCountThem) {
  TrainerOptions options = tiny_options();
  options.max_duration = "1tok";
  Trainer trainer(std::move(options));
  EXPECT_THAT(message_of<UsageError>([&] { trainer.fit(); }), HasSubstr("get_num_tokens_in_batch"));
  EXPECT_EQ(trainer.state().timestamp.batch, 0);
  DataSpec none{.dataloader = tiny_loader(4)};
  none.get_num_tokens_in_batch = [](const Batch&) { return 0; };
  EXPECT_THAT(message_of<UsageError>([&] { trainer.fit({.train_dataloader = none}); }),
              HasSubstr("never end"));
  DataSpec some{.dataloader = tiny_loader(4)};
  some.get_num_tokens_in_batch = [](const Batch& batch) { return batch[0].size(0); };
  trainer.fit({.train_dataloader = some, .reset_time = true});
  EXPECT_EQ(trainer.state().timestamp.token, 2);
}

TEST(FitDuration, OfZeroIsRefusedWithWhatToGive) {
  TrainerOptions options = tiny_options();
  options.max_duration = "0ep";
  Trainer trainer(std::move(options));
  EXPECT_THAT(message_of<UsageError>([&] { trainer.fit(); }),
              HasSubstr("max_duration is 0ep. Give a max_duration above 0, such as 10ep"));
  trainer.fit({.duration = "1ba"});
  EXPECT_EQ(trainer.state().timestamp.batch, 1);
}

// Observed with Composer for 5 batches per epoch.
TEST(FitDuration, FollowsComposersSequence) {
  TrainerOptions options = tiny_options();
  options.max_duration = "1ep";
  Trainer trainer(std::move(options));
  const Timestamp& now = trainer.state().timestamp;
  trainer.fit();
  EXPECT_EQ(now.epoch, 1);
  EXPECT_THROW(trainer.fit(), UsageError);
  trainer.fit({.duration = "1ep"});
  EXPECT_EQ(now.epoch, 2);
  EXPECT_EQ(*trainer.state().max_duration, Time("2ep"));
  trainer.fit({.duration = "2ba"});
  EXPECT_EQ(now.batch, 12);
  EXPECT_EQ(*trainer.state().max_duration, Time("12ba"));
  trainer.fit({.duration = "1ep"});
  EXPECT_EQ(now.epoch, 3);
  EXPECT_EQ(now.batch, 15) << "the two batches already trained are skipped";
  EXPECT_EQ(*trainer.state().max_duration, Time("3ep"));
  trainer.fit({.duration = "7ba", .reset_time = true});
  EXPECT_EQ(now.epoch, 1);
  EXPECT_EQ(now.batch, 7);
  EXPECT_EQ(now.batch_in_epoch, 2);
}

TEST(FitDuration, StopsBetweenBatchesOnly) {
  TrainerOptions options = tiny_options();
  options.train_dataloader = tiny_loader(10, {.batch_size = 4});
  options.max_duration = "9sp";
  Trainer trainer(std::move(options));
  trainer.fit();
  EXPECT_EQ(trainer.state().timestamp.sample, 10);
  EXPECT_EQ(trainer.state().timestamp.epoch, 1) << "the epoch was at its last batch";
}

TEST(FitDuration, CountsTokens) {
  TrainerOptions options = tiny_options();
  DataSpec data{.dataloader = tiny_loader(10)};
  data.get_num_tokens_in_batch = [](const Batch& batch) { return 3 * batch[0].size(0); };
  options.train_dataloader = data;
  options.max_duration = "20tok";
  Trainer trainer(std::move(options));
  trainer.fit();
  EXPECT_EQ(trainer.state().timestamp.batch, 4);
  EXPECT_EQ(trainer.state().timestamp.token, 24);
}

TEST(FitDuration, EndsAtTheBatchWhereStopTrainingWasCalled) {
  auto events = std::make_shared<EventRecorder>();
  TrainerOptions options = tiny_options();
  options.max_duration = "9ep";
  options.callbacks = {events, CallAt(Event::kBatchEnd, [](State& state) {
                         if (state.timestamp.batch == 7) state.stop_training();
                       })};
  Trainer trainer(std::move(options));
  EXPECT_EQ(trainer.fit().reason, FitResult::Reason::kFinished);
  EXPECT_EQ(trainer.state().timestamp.batch, 7);
  EXPECT_EQ(events->count("batch_checkpoint"), 7) << "the batch is completed";
  EXPECT_EQ(events->count("fit_end"), 1);
}

TEST(FitDuration, SubsetsEveryEpoch) {
  TrainerOptions options = tiny_options();
  options.train_subset_num_batches = 3;
  Trainer trainer(std::move(options));
  EXPECT_EQ(trainer.state().dataloader_len, 3);
  trainer.fit();
  EXPECT_EQ(trainer.state().timestamp.batch, 6);
  EXPECT_EQ(trainer.state().timestamp.epoch, 2);
}

TEST(FitDuration, SubsetsALoaderOfFitToo) {
  TrainerOptions options = tiny_options();
  options.train_dataloader = DataSpec();
  options.train_subset_num_batches = 3;
  Trainer trainer(std::move(options));
  trainer.fit({.train_dataloader = tiny_loader(10)});
  EXPECT_EQ(trainer.state().timestamp.batch, 6);
  trainer.fit({.train_subset_num_batches = 4, .duration = "1ep"});
  EXPECT_EQ(trainer.state().timestamp.batch, 10);
  trainer.fit({.train_dataloader = tiny_loader(20), .duration = "1ep"});
  EXPECT_EQ(trainer.state().timestamp.batch, 14) << "the last value counts";
}

TEST(FitDuration, WarnsAndClampsASubsetLargerThanTheLoader) {
  auto log = std::make_shared<LogRecorder>();
  TrainerOptions options = tiny_options();
  options.train_subset_num_batches = 30;
  options.loggers = {log};
  Trainer trainer(std::move(options));
  EXPECT_EQ(trainer.state().dataloader_len, 5);
  EXPECT_THAT(log->messages, ::testing::Contains(HasSubstr("train_subset_num_batches")));
}

TEST(FitDuration, NeedsADurationAndData) {
  TrainerOptions options = tiny_options();
  options.max_duration.reset();
  options.train_dataloader = DataSpec();
  Trainer trainer(std::move(options));
  EXPECT_THROW(trainer.fit({.duration = "1ba"}), UsageError);
  EXPECT_THROW(trainer.fit({.train_dataloader = tiny_loader(4)}), UsageError);
  EXPECT_THROW(trainer.fit({.duration = "5sec"}), UsageError);
  EXPECT_NO_THROW(trainer.fit({.duration = "1ba"}));
}

std::shared_ptr<DataLoaderBase> unsized_loader(std::int64_t batches) {
  return iterator_loader(
      [batches](std::int64_t) -> BatchIterator {
        auto left = std::make_shared<std::int64_t>(batches);
        return [left]() -> std::optional<Batch> {
          if ((*left)-- == 0) return std::nullopt;
          return Batch{at::ones({2, 4}, at::kDouble), at::zeros({2}, at::kLong)};
        };
      },
      {.uses_global_rng = false});
}

TEST(UnsizedLoader, TrainsInBatchesButNotInEpochs) {
  TrainerOptions options = tiny_options();
  options.train_dataloader = unsized_loader(3);
  options.max_duration = "7ba";
  Trainer trainer(std::move(options));
  EXPECT_EQ(trainer.state().dataloader_len, std::nullopt);
  trainer.fit();
  EXPECT_EQ(trainer.state().timestamp.batch, 7);
  EXPECT_EQ(trainer.state().timestamp.epoch, 2);
  EXPECT_THROW(trainer.fit({.duration = "1ep"}), UsageError);
  EXPECT_NO_THROW(trainer.fit({.train_subset_num_batches = 3, .duration = "1ep"}));
}

TEST(UnsizedLoader, WithoutAnyBatchIsAnError) {
  TrainerOptions options = tiny_options();
  options.train_dataloader = unsized_loader(0);
  options.max_duration = "7ba";
  Trainer trainer(std::move(options));
  EXPECT_THROW(trainer.fit(), UsageError);
}

// --- Options of fit() ----------------------------------------------------------------------------

TEST(FitOptions, AreCheckedAsTrainerOptionsAreBeforeAnythingChanges) {
  Trainer trainer(tiny_options());
  EXPECT_THAT(message_of<UsageError>([&] {
                trainer.fit({.train_subset_num_batches = 0,
                             .duration = "1ba",
                             .scale_schedule_ratio = -1,
                             .device_train_microbatch_size = 0});
              }),
              AllOf(HasSubstr("fit():"), HasSubstr("train_subset_num_batches is 0"),
                    HasSubstr("scale_schedule_ratio must be"),
                    HasSubstr("device_train_microbatch_size is less than 1")));
  EXPECT_EQ(*trainer.state().max_duration, Time("2ep"));
  EXPECT_NO_THROW(trainer.fit());
}

TEST(FitOptions, HoldForLaterCalls) {
  Trainer trainer(tiny_options());
  trainer.fit({.duration = "1ba", .device_train_microbatch_size = 1});
  trainer.fit({.train_dataloader = tiny_loader(10), .duration = "1ba"});
  EXPECT_EQ(trainer.state().device_train_microbatch_size, 1);
}

// --- Logging -------------------------------------------------------------------------------------

TEST(FitLogs, HaveComposersKeysAndSteps) {
  auto log = std::make_shared<LogRecorder>();
  TrainerOptions options = tiny_options({.metrics = true});
  options.loggers = {log};
  options.max_duration = "3ba";
  Trainer trainer(std::move(options));
  trainer.fit();
  EXPECT_THAT(log->values("time/batch"), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(log->values("time/sample"), ElementsAre(0, 2, 4, 6));
  EXPECT_EQ(log->values("loss/train/total").size(), 3U);
  EXPECT_EQ(log->values("metrics/train/MeanOutput").size(), 3U);
  EXPECT_THAT(log->values("trainer/device_train_microbatch_size"), ElementsAre(2, 2, 2));
  EXPECT_TRUE(log->values("time/token").empty());
  EXPECT_NE(log->hyperparameters.find("rank_zero_seed"), nullptr);
  EXPECT_NE(log->hyperparameters.find("node_name"), nullptr);
}

TEST(FitLogs, LossesAreThereWithoutAnyObserver) {
  Trainer trainer(tiny_options({.metrics = true}));
  trainer.fit();
  EXPECT_GT(trainer.state().total_loss_dict.at("loss/train/total").as_float(), 0);
  EXPECT_TRUE(trainer.state().metric_value("train", "MeanOutput"));
}

// --- How it ends ---------------------------------------------------------------------------------

TEST(FitErrors, PropagateAndLeaveClosingToClose) {
  auto events = std::make_shared<EventRecorder>();
  TrainerOptions options = tiny_options();
  options.callbacks = {events, CallAt(Event::kAfterLoss, [](State& state) {
                         if (state.timestamp.batch == 2) throw std::runtime_error("bad loss");
                       })};
  Trainer trainer(std::move(options));
  EXPECT_THROW(trainer.fit(), std::runtime_error);
  EXPECT_EQ(events->count("batch_end"), 2);
  EXPECT_EQ(events->count("fit_end"), 0);
  EXPECT_EQ(events->count("close"), 0);
  trainer.close();
  EXPECT_EQ(events->count("close"), 1);
  EXPECT_EQ(events->count("post_close"), 1);
  EXPECT_THROW(trainer.fit(), UsageError) << "a closed Trainer does not train";
}

TEST(FitErrors, ADestroyedTrainerClosesItsCallbacks) {
  auto events = std::make_shared<EventRecorder>();
  {
    TrainerOptions options = tiny_options();
    options.callbacks = {events};
    Trainer trainer(std::move(options));
  }
  EXPECT_THAT(events->events,
              ElementsAre("init", "before_load", "after_load", "close", "post_close"));
}

TEST(FitErrors, AModelWithoutParametersIsRefusedAtFit) {
  struct Constant : Model {
    torch::nn::Module& module() override { return net; }
    Outputs forward(const Batch& batch) override { return batch[0]; }
    Losses loss(const Outputs& outputs, const Batch&) override { return outputs.single().mean(); }
    torch::nn::Module net;
  };
  TrainerOptions options = tiny_options();
  options.model = std::make_shared<Constant>();
  Trainer trainer(std::move(options));
  EXPECT_THROW(trainer.fit(), UsageError);
}

TEST(Fit, WarnsWhenItChoosesTheOptimizer) {
  auto log = std::make_shared<LogRecorder>();
  TrainerOptions options = tiny_options();
  options.optimizers = {};
  options.loggers = {log};
  Trainer trainer(std::move(options));
  EXPECT_THAT(log->messages, ::testing::Contains(HasSubstr("DecoupledSGDW")));
  EXPECT_NO_THROW(trainer.fit());
}

TEST(Fit, LeavesNoGradientsBehind) {
  Trainer trainer(tiny_options());
  trainer.fit();
  for (const at::Tensor& parameter : trainer.state().model->module().parameters()) {
    EXPECT_FALSE(parameter.grad().defined());
  }
}

TEST(Fit, SameSeedSameWeights) {
  const auto train = [](std::int64_t seed) {
    TrainerOptions options = tiny_options({.dropout = 0.5});
    options.seed = seed;
    Trainer trainer(std::move(options));
    trainer.fit();
    return testing::weights_of(*trainer.state().model);
  };
  EXPECT_TRUE(at::equal(train(1), train(1)));
  EXPECT_FALSE(at::equal(train(1), train(2)));
}

TEST(Fit, PrefetchingChangesNothing) {
  const auto train = [](int workers) {
    TrainerOptions options = tiny_options({.dropout = 0.5});
    options.train_dataloader =
        tiny_loader(10, {.batch_size = 2, .shuffle = true, .num_workers = workers});
    Trainer trainer(std::move(options));
    trainer.fit();
    return testing::weights_of(*trainer.state().model);
  };
  EXPECT_TRUE(at::equal(train(0), train(2)));
}

}  // namespace
}  // namespace cairn
