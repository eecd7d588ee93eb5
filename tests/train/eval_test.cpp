// Evaluators: when they run, what they compute, and what they leave unchanged. Also predict().

#include <gmock/gmock.h>

#include "cairn/error.h"
#include "cairn/train/trainer.h"

#include "testing/message_of.h"
#include "testing/tiny_model.h"

namespace cairn {
namespace {

using testing::CallAt;
using ::testing::ElementsAre;
using testing::EventRecorder;
using ::testing::HasSubstr;
using testing::LogRecorder;
using testing::message_of;
using testing::tiny_loader;
using testing::tiny_options;

// The batches after which a fit() of 2 epochs of 5 batches evaluated.
std::vector<std::int64_t> evaluated_at(const Interval& interval) {
  std::vector<std::int64_t> batches;
  TrainerOptions options = tiny_options();
  options.eval_dataloader = tiny_loader(4);
  options.eval_interval = interval;
  options.callbacks = {
      CallAt(Event::kEvalStart, [&](State& state) { batches.push_back(state.timestamp.batch); })};
  Trainer trainer(std::move(options));
  trainer.fit();
  return batches;
}

TEST(EvalInterval, SaysWhen) {
  EXPECT_THAT(evaluated_at(1), ElementsAre(5, 10));
  EXPECT_THAT(evaluated_at("4ba"), ElementsAre(4, 8, 10)) << "and at the end";
  EXPECT_THAT(evaluated_at("5ba"), ElementsAre(5, 10)) << "the end counts once";
  EXPECT_THAT(evaluated_at("0.25dur"), ElementsAre(3, 6, 9, 10));
  EXPECT_TRUE(evaluated_at(0).empty());
  EXPECT_THAT(evaluated_at([](const State& state, Event event) {
                return event == Event::kBatchEnd && state.timestamp.batch == 7;
              }),
              ElementsAre(7));
}

TEST(EvalInterval, IsEachEvaluatorsOwn) {
  std::vector<std::string> labels;
  TrainerOptions options = tiny_options();
  options.eval_dataloader = {
      {.label = "often", .dataloader = tiny_loader(2), .eval_interval = "3ba"},
      {.label = "usual", .dataloader = tiny_loader(2)}};
  options.callbacks = {CallAt(Event::kEvalStart, [&](State& state) {
    labels.push_back(state.dataloader_label + std::to_string(state.timestamp.batch));
  })};
  Trainer trainer(std::move(options));
  trainer.fit();
  EXPECT_THAT(labels, ElementsAre("often3", "usual5", "often6", "often9", "usual10", "often10"));
}

TEST(Eval, ComputesLogsAndKeepsTheMetrics) {
  auto log = std::make_shared<LogRecorder>();
  TrainerOptions options = tiny_options({.metrics = true});
  options.eval_dataloader = Evaluator{.label = "held out", .dataloader = tiny_loader(5)};
  options.loggers = {log};
  Trainer trainer(std::move(options));
  trainer.eval();
  const Batch all = testing::tiny_dataset(5)->get_batch(std::vector<std::int64_t>{0, 1, 2, 3, 4});
  const double expected = trainer.state().model->forward(all).single().mean().item<double>();
  EXPECT_NEAR(*trainer.state().metric_value("held out", "MeanOutput"), expected, 1e-12);
  EXPECT_THAT(log->values("metrics/held out/MeanOutput"),
              ElementsAre(::testing::DoubleNear(expected, 1e-12)));
}

TEST(Eval, StandaloneHasItsOwnEventsAndNoBeforeAll) {
  auto events = std::make_shared<EventRecorder>();
  TrainerOptions options = tiny_options();
  options.callbacks = {events};
  Trainer trainer(std::move(options));
  EXPECT_THROW(trainer.eval(), UsageError) << "there is nothing to evaluate";
  events->events.clear();
  trainer.eval(tiny_loader(2));
  EXPECT_THAT(events->events, ElementsAre("eval_standalone_start", "eval_start", "eval_batch_start",
                                          "eval_before_forward", "eval_after_forward",
                                          "eval_batch_end", "eval_end", "eval_standalone_end"));
}

TEST(Eval, MicrobatchesAndSubsets) {
  auto events = std::make_shared<EventRecorder>();
  TrainerOptions options = tiny_options();
  options.callbacks = {events};
  options.eval_dataloader =
      Evaluator{.dataloader = tiny_loader(8, {.batch_size = 4}), .device_eval_microbatch_size = 3};
  Trainer trainer(std::move(options));
  trainer.eval();
  EXPECT_EQ(events->count("eval_batch_end"), 2);
  EXPECT_EQ(events->count("eval_after_forward"), 4);
  EXPECT_EQ(trainer.state().eval_timestamp.sample, 8);
  EXPECT_EQ(trainer.state().eval_timestamp.epoch, 0);
  trainer.eval(std::nullopt, 1);
  EXPECT_EQ(events->count("eval_batch_end"), 3);
}

TEST(Eval, DropsTheOutputsOfAMicrobatchBeforeTheNext) {
  std::vector<bool> has_outputs;
  TrainerOptions options = tiny_options();
  options.eval_dataloader =
      Evaluator{.dataloader = tiny_loader(6, {.batch_size = 6}), .device_eval_microbatch_size = 2};
  options.callbacks = {CallAt(Event::kEvalBeforeForward, [&](State& state) {
    has_outputs.push_back(!state.outputs.empty());
  })};
  Trainer trainer(std::move(options));
  trainer.eval();
  EXPECT_THAT(has_outputs, ElementsAre(false, false, false));
}

TEST(Eval, ChoosesMetricsByFragmentsOfTheirNames) {
  TrainerOptions options = tiny_options({.metrics = true});
  options.eval_dataloader = {
      {.label = "a", .dataloader = tiny_loader(2), .metric_names = {{"output"}}},
      {.label = "b", .dataloader = tiny_loader(2), .metric_names = {{"MEAN", "^mean.*put$"}}},
      {.label = "c", .dataloader = tiny_loader(2), .metric_names = std::vector<std::string>()}};
  Trainer trainer(std::move(options));
  EXPECT_EQ(trainer.state().eval_metrics[0].second.size(), 1U);
  EXPECT_EQ(trainer.state().eval_metrics[1].second.size(), 1U);
  EXPECT_TRUE(trainer.state().eval_metrics[2].second.empty());
}

TEST(Eval, RefusesAFragmentThatIsInNoMetricsName) {
  const auto evaluator = [](std::vector<std::string> names) {
    return Evaluator{
        .label = "val", .dataloader = tiny_loader(2), .metric_names = std::move(names)};
  };
  const std::vector<std::vector<std::string>> lists = {{"F1"}, {"output", "F1"}, {"F1", "output"}};
  for (const auto& names : lists) {
    TrainerOptions options = tiny_options({.metrics = true});
    options.eval_dataloader = evaluator(names);
    EXPECT_EQ(message_of<UsageError>([&] { Trainer trainer(options); }),
              "eval_dataloader 'val': metric_names: 'F1' is part of no metric's name; the model "
              "has MeanOutput");
  }
  TrainerOptions options = tiny_options();  // Its model has no metrics.
  options.eval_dataloader = evaluator({"Accuracy"});
  EXPECT_THAT(message_of<UsageError>([&] { Trainer trainer(options); }),
              HasSubstr("the model has none"));
  options = tiny_options({.metrics = true});
  options.eval_dataloader = evaluator({"output"});
  Trainer trainer(std::move(options));
  for (const auto& give : std::vector<std::function<void()>>{
           [&] { trainer.eval(EvaluatorList(evaluator({"F1"}))); },
           [&] { trainer.fit({.eval_dataloader = evaluator({"F1"})}); }}) {
    EXPECT_THROW(give(), UsageError);
    EXPECT_EQ(trainer.state().timestamp.batch, 0);
    EXPECT_EQ(trainer.state().eval_metrics[0].second.size(), 1U);
  }
}

TEST(Eval, RefusesEvaluatorsThatCannotBe) {
  const auto refused = [](EvaluatorList evaluators) {
    TrainerOptions options = tiny_options();
    options.eval_dataloader = std::move(evaluators);
    EXPECT_THROW(Trainer trainer(std::move(options)), UsageError);
  };
  // The labels are equal.
  refused({{.dataloader = tiny_loader(2)}, {.dataloader = tiny_loader(2)}});
  refused(Evaluator{.label = "no loader"});
  refused(Evaluator{.dataloader = tiny_loader(2), .metric_names = {{"("}}});
  refused(Evaluator{.dataloader = tiny_loader(2), .subset_num_batches = 0});
  refused(Evaluator{.dataloader = iterator_loader([](std::int64_t) {
                      return BatchIterator([] { return std::optional<Batch>(); });
                    })});
}

TEST(Eval, LeavesTrainingAsItWas) {
  const auto train = [](bool evaluate) {
    TrainerOptions options = tiny_options();
    if (evaluate) options.eval_dataloader = tiny_loader(4);
    options.eval_interval = "1ba";
    Trainer trainer(std::move(options));
    trainer.fit();
    EXPECT_EQ(trainer.state().dataloader_label, "train");
    EXPECT_EQ(trainer.state().dataloader_len, 5);
    EXPECT_TRUE(trainer.state().model->module().is_training());
    return testing::weights_of(*trainer.state().model);
  };
  EXPECT_TRUE(at::equal(train(true), train(false)));
}

TEST(Eval, RunsAfterFitEndAtTheEnd) {
  auto events = std::make_shared<EventRecorder>();
  TrainerOptions options = tiny_options();
  options.eval_dataloader = tiny_loader(2);
  options.eval_interval = "3ba";
  options.max_duration = "4ba";
  options.callbacks = {events};
  Trainer trainer(std::move(options));
  trainer.fit();
  const auto fit_end = std::find(events->events.begin(), events->events.end(), "fit_end");
  EXPECT_EQ(std::count(fit_end, events->events.end(), "eval_start"), 1);
  EXPECT_EQ(events->count("eval_start"), 2);
}

TEST(Eval, SeesTheModelInEvalMode) {
  bool training = true;
  TrainerOptions options = tiny_options();
  options.eval_dataloader = tiny_loader(2);
  options.callbacks = {CallAt(Event::kEvalAfterForward, [&](State& state) {
    training = state.model->module().is_training() || state.outputs.single().requires_grad();
  })};
  Trainer trainer(std::move(options));
  trainer.fit();
  EXPECT_FALSE(training);
}

// --- With the train loader itself: training gets the same batches as without evaluation ----------

std::shared_ptr<DataLoaderBase> shuffled_loader(int workers) {
  return std::make_shared<DataLoader>(
      testing::tiny_dataset(10),
      DataLoaderOptions{.batch_size = 2, .shuffle = true, .num_workers = workers});
}

// A loader whose order comes from torch's global generator.
std::shared_ptr<DataLoaderBase> globally_shuffled_loader() {
  return iterator_loader(
      [data = testing::tiny_dataset(10)](std::int64_t) -> BatchIterator {
        const at::Tensor order = at::randperm(10, at::kLong);
        return [data, order, at = 0]() mutable -> std::optional<Batch> {
          if (at >= 10) return std::nullopt;
          const auto* first = order.data_ptr<std::int64_t>() + at;
          at += 2;
          return data->get_batch({first, first + 2});
        };
      },
      {.num_batches = 5, .batch_size = 2});
}

using LoaderPtr = std::shared_ptr<DataLoaderBase>;

void expect_same_training(const std::function<LoaderPtr()>& make,
                          const std::function<void(TrainerOptions&, const LoaderPtr&)>& use) {
  const auto train = [&](bool is_shared) {
    const LoaderPtr loader = make();
    TrainerOptions options = tiny_options({.dropout = 0.3});
    options.train_dataloader = loader;
    use(options, is_shared ? loader : make());
    Trainer trainer(std::move(options));
    trainer.fit();
    EXPECT_EQ(trainer.state().timestamp.batch, 10);
    return testing::weights_of(*trainer.state().model);
  };
  EXPECT_TRUE(at::equal(train(true), train(false)));
}

TEST(EvalOverTheTrainLoader, LeavesTrainingItsBatches) {
  const auto evaluate = [](TrainerOptions& options, const LoaderPtr& loader) {
    options.eval_dataloader = loader;
    options.eval_interval = "3ba";
  };
  expect_same_training([] { return shuffled_loader(0); }, evaluate);
  expect_same_training([] { return shuffled_loader(2); }, evaluate);
  expect_same_training(globally_shuffled_loader, evaluate);
}

// A callback calls predict(), also at an event at which the loader is a batch ahead of training.
TEST(PredictOverTheTrainLoader, LeavesTrainingItsBatches) {
  for (const Event event : {Event::kBeforeDataloader, Event::kBatchStart}) {
    Trainer* running = nullptr;
    const auto train = [&](bool is_shared) {
      const LoaderPtr loader = shuffled_loader(0);
      const LoaderPtr predicted = is_shared ? loader : shuffled_loader(0);
      std::vector<double> first_features;
      TrainerOptions options = tiny_options();
      options.train_dataloader = loader;
      options.callbacks = {CallAt(event,
                                  [&](State& state) {
                                    const Batch batch = state.batch;
                                    if (state.timestamp.batch % 3 == 1) running->predict(predicted);
                                    state.batch = batch;
                                  }),
                           CallAt(Event::kBeforeTrainBatch, [&](State& state) {
                             first_features.push_back(state.batch[0][0][0].item<double>());
                           })};
      Trainer trainer(std::move(options));
      running = &trainer;
      trainer.fit();
      return first_features;
    };
    EXPECT_EQ(train(true), train(false));
  }
}

TEST(Predict, GivesTheOutputsOfEveryBatch) {
  auto events = std::make_shared<EventRecorder>();
  TrainerOptions options = tiny_options();
  options.callbacks = {events};
  Trainer trainer(std::move(options));
  const std::vector<Outputs> outputs = trainer.predict(tiny_loader(5));
  ASSERT_EQ(outputs.size(), 3U);
  EXPECT_EQ(outputs[0].single().size(0), 2);
  EXPECT_EQ(outputs[2].single().size(0), 1);
  EXPECT_FALSE(outputs[0].single().requires_grad());
  EXPECT_EQ(events->count("predict_start"), 1);
  EXPECT_EQ(events->count("predict_batch_end"), 3);
  EXPECT_EQ(trainer.predict(tiny_loader(5), 1).size(), 1U);
  EXPECT_THROW(trainer.predict(DataSpec()), UsageError);
}

}  // namespace
}  // namespace cairn
