// An error of user code says where in the run it occurred, in one readable text, and keeps its
// cause.

#include <ATen/ThreadLocalState.h>
#include <gmock/gmock.h>

#include <optional>
#include <stdexcept>
#include <thread>

#include "cairn/error.h"
#include "cairn/optim/optimizers.h"
#include "cairn/train/trainer.h"

#include "testing/message_of.h"
#include "testing/tiny_model.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using testing::CallAt;
using ::testing::HasSubstr;
using testing::message_of;
using ::testing::Not;
using ::testing::StartsWith;
using testing::tiny_loader;
using testing::tiny_options;
using testing::TinyModel;

// Matches a text without the backtrace that libtorch appends to its messages.
const auto kIsReadable = AllOf(Not(HasSubstr("frame #")), Not(HasSubstr("Exception raised from")));

DataLoader loader_of(const at::Tensor& x, const at::Tensor& y) {
  return DataLoader(tensor_dataset({x, y}), {.batch_size = 2});
}

// From batch 1 on, samples have five features, but the model takes four.
DataSpec loader_with_a_wrong_shape() {
  DataSpec data{.dataloader = tiny_loader(8)};
  auto batches = std::make_shared<int>(0);
  data.batch_transforms = [batches](Batch batch) {
    if (++*batches > 1) batch[0] = torch::zeros({2, 5}, at::kDouble);
    return batch;
  };
  return data;
}

std::string fit_failure(TrainerOptions options) {
  Trainer trainer(std::move(options));
  return message_of<TrainingError>([&] { trainer.fit(); });
}

TEST(Failure, AWrongShapeNamesBatchEventAndModel) {
  TrainerOptions options = tiny_options();
  options.train_dataloader = loader_with_a_wrong_shape();
  EXPECT_THAT(
      fit_failure(std::move(options)),
      AllOf(
          StartsWith("training failed in batch 1 of epoch 0 (counted from 0), in forward() (model "
                     "TinyNet, after the event before_forward): mat1 and mat2 shapes cannot be "
                     "multiplied (2x5 and 4x8)"),
          HasSubstr("\n  layer: first (Linear), in aten::addmm"),
          HasSubstr("\n  batch: Double [2, 5], Long [2]"),
          HasSubstr("\n  parameters of TinyNet: Double"), kIsReadable));
}

std::string layer_line(torch::nn::Sequential net, const at::Tensor& x) {
  TrainerOptions options = tiny_options();
  options.model = classifier(std::move(net), {.num_classes = 3});
  options.train_dataloader = loader_of(x, torch::zeros({4}, at::kLong));
  const std::string message = fit_failure(std::move(options));
  const std::size_t begin = message.find("\n  layer: ");
  if (begin == std::string::npos) return "none in " + message;
  return message.substr(begin + 10, message.find('\n', begin + 1) - begin - 10);
}

TEST(Failure, NamesTheLayerThatFailed) {
  using torch::nn::Linear;
  const at::Tensor x = torch::zeros({4, 4});
  EXPECT_EQ(layer_line(torch::nn::Sequential(Linear(4, 8), torch::nn::ReLU(), Linear(9, 3)), x),
            "2 (Linear), in aten::addmm");
  EXPECT_EQ(
      layer_line(torch::nn::Sequential(torch::nn::LayerNorm(torch::nn::LayerNormOptions({5}))), x),
      "0 (LayerNorm), in aten::native_layer_norm");
}

TEST(Failure, NamesALayerInsideAnother) {
  struct Block : torch::nn::Module {
    Block() { inner = register_module("inner", torch::nn::Linear(7, 8)); }
    at::Tensor forward(const at::Tensor& x) { return inner->forward(x); }
    torch::nn::Linear inner{nullptr};
  };
  EXPECT_EQ(layer_line(torch::nn::Sequential(torch::nn::Linear(4, 8), std::make_shared<Block>()),
                       torch::zeros({4, 4})),
            "1.inner (Linear), in aten::addmm");
}

TEST(Failure, BetweenLayersNamesTheLastOne) {
  const at::Tensor x = torch::zeros({4, 4});
  const auto add = [](const at::Tensor& y) { return y + torch::zeros({7}); };
  EXPECT_EQ(
      layer_line(torch::nn::Sequential(torch::nn::Linear(4, 8), torch::nn::Functional(add)), x),
      "after 0 (Linear), in aten::add");
  EXPECT_EQ(
      layer_line(torch::nn::Sequential(torch::nn::Functional(add), torch::nn::Linear(4, 8)), x),
      "before any layer, in aten::add");
}

TEST(Failure, AnErrorThatTheModelCaughtIsNotWhatFailed) {
  const auto try_first = [](const at::Tensor& y) {
    try {
      return y + torch::zeros({7});
    } catch (const c10::Error&) {
      return y;
    }
  };
  EXPECT_EQ(
      layer_line(torch::nn::Sequential(torch::nn::Functional(try_first), torch::nn::Linear(5, 8)),
                 torch::zeros({4, 4})),
      "1 (Linear), in aten::addmm");
}

// c10d's threads get the thread-local state of this thread while they work for it, and keep that
// state later.
TEST(Failure, OperatorsOfOtherThreadsAreNoneOfTheModels) {
  std::optional<at::ThreadLocalState> of_model;
  const auto compute = [&of_model] {
    const at::ThreadLocalStateGuard as_if_there(*of_model);
    EXPECT_THROW(torch::zeros({6}) + torch::zeros({7}), c10::Error);
  };
  const auto elsewhere = [&](const at::Tensor& y) {
    of_model.emplace();
    std::thread(compute).join();
    return y;
  };
  EXPECT_EQ(
      layer_line(torch::nn::Sequential(torch::nn::Functional(elsewhere), torch::nn::Linear(5, 8)),
                 torch::zeros({4, 4})),
      "1 (Linear), in aten::addmm");
  std::thread(compute).join();
}

TEST(Failure, AWrongTypeSaysWhatTheParametersAre) {
  TrainerOptions options = tiny_options();
  options.model = classifier(torch::nn::Linear(4, 3), {.num_classes = 3});
  EXPECT_THAT(fit_failure(std::move(options)),
              AllOf(HasSubstr("(model Linear, after"), HasSubstr("batch: Double [2, 4], Long [2]"),
                    HasSubstr("parameters of Linear: Float"), kIsReadable));
}

TEST(Failure, KeepsTheOriginalAsItsCause) {
  TrainerOptions options = tiny_options();
  options.train_dataloader = loader_with_a_wrong_shape();
  Trainer trainer(std::move(options));
  try {
    trainer.fit();
    FAIL() << "trained";
  } catch (const TrainingError& error) {
    const std::string cause = message_of<c10::Error>([&] { std::rethrow_if_nested(error); });
    EXPECT_THAT(cause, HasSubstr("shapes cannot be multiplied"));
  }
}

TEST(Failure, NamesTheMicrobatch) {
  TrainerOptions options = tiny_options();
  DataSpec data{.dataloader = DataLoader(testing::tiny_dataset(8), {.batch_size = 8})};
  auto parts = std::make_shared<int>(0);
  data.microbatch_transforms = [parts](Batch batch) {
    if (++*parts == 3) batch[0] = batch[0].to(at::kFloat);
    return batch;
  };
  options.train_dataloader = data;
  options.device_train_microbatch_size = 2;
  EXPECT_THAT(
      fit_failure(std::move(options)),
      AllOf(HasSubstr("batch 0 of epoch 0 (counted from 0), microbatch 3 of 4, in forward()"),
            HasSubstr("batch: Float [2, 4], Long [2]")));
}

TEST(Failure, InTheLossShowsTheOutputs) {
  TrainerOptions options = tiny_options();
  options.train_dataloader =
      // The model has 3 classes.
      loader_of(torch::zeros({4, 4}, at::kDouble), torch::full({4}, 7));
  EXPECT_THAT(fit_failure(std::move(options)),
              AllOf(HasSubstr("in loss() (model TinyNet, after the event before_loss)"),
                    HasSubstr("\n  outputs: Double [2, 3]"), kIsReadable));
}

TEST(Failure, InTheLossOfAClassifierKeepsCairnsErrorAndSaysWhere) {
  TrainerOptions options = tiny_options();
  options.model = classifier(torch::nn::Linear(4, 3), {.num_classes = 3});
  options.train_dataloader = loader_of(torch::zeros({4, 4}), torch::zeros({4, 2}));
  Trainer trainer(std::move(options));
  EXPECT_THAT(message_of<UsageError>([&] { trainer.fit(); }),
              AllOf(StartsWith("training failed in batch 0"), HasSubstr("[2, 2]")));
}

struct BrokenMetric final : Metric {
  std::string name() const override { return "Broken"; }
  std::unique_ptr<Metric> clone() const override { return std::make_unique<BrokenMetric>(); }
  void reset() override {}
  void update(const at::Tensor& outputs, const at::Tensor& target) override {
    outputs.add(target.unsqueeze(0).expand({5, 2}));
  }
  at::Tensor compute() override { return torch::zeros({}); }
  Value state_dict() const override { return Dict(); }
  void load_state_dict(const Value& /*state*/) override {}
};

struct MeasuredModel final : TinyModel {
  Metrics get_metrics(bool /*is_train*/) override {
    return {{"Broken", std::make_shared<BrokenMetric>()}};
  }
};

TEST(Failure, InAMetricNamesIt) {
  TrainerOptions options = tiny_options();
  options.model = std::make_shared<MeasuredModel>();
  EXPECT_THAT(fit_failure(std::move(options)),
              AllOf(HasSubstr("training failed"), HasSubstr("update_metric(Broken)")));
}

TEST(Failure, InAnEvaluationNamesItsLabel) {
  TrainerOptions options = tiny_options();
  options.eval_dataloader =
      Evaluator{.label = "held-out", .dataloader = loader_with_a_wrong_shape()};
  EXPECT_THAT(fit_failure(std::move(options)),
              AllOf(StartsWith("evaluation of \"held-out\" failed in batch 1 (counted from 0), in "
                               "eval_forward() (model TinyNet, after the event "
                               "eval_before_forward): mat1 and mat2"),
                    HasSubstr("batch: Double [2, 5]"), kIsReadable));
}

TEST(Failure, InAPredictionNamesItsBatch) {
  Trainer trainer(tiny_options());
  const auto message =
      message_of<TrainingError>([&] { trainer.predict(loader_with_a_wrong_shape()); });
  EXPECT_THAT(message,
              StartsWith("prediction failed in batch 1 (counted from 0), in eval_forward()"));
  EXPECT_EQ(trainer.predict(tiny_loader(4)).size(), 2U) << "and goes on";
}

struct BrokenData final : Dataset {
  std::int64_t size() const override { return 4; }
  Batch get_batch(std::span<const std::int64_t> indices) const override {
    return torch::zeros({2}).index({torch::tensor(indices[0] + 100)});
  }
};

TEST(Failure, InADatasetIsTheDataLoaders) {
  for (const int workers : {0, 2}) {
    TrainerOptions options = tiny_options();
    options.train_dataloader =
        DataLoader(std::make_shared<BrokenData>(), {.batch_size = 2, .num_workers = workers});
    EXPECT_THAT(fit_failure(std::move(options)),
                AllOf(HasSubstr("in the data loader"), HasSubstr("out of bounds"), kIsReadable));
  }
}

struct OfTheUser : std::exception {};

TEST(Failure, InACallbackNamesItAndTheEvent) {
  TrainerOptions options = tiny_options();
  options.callbacks = CallAt(Event::kBatchEnd, [](State& state) {
    if (state.timestamp.batch == 3) torch::zeros({2}).add_(torch::zeros({3}));
  });
  EXPECT_THAT(fit_failure(std::move(options)),
              AllOf(StartsWith("the callback CallAt failed at the event batch_end, after 3 batches "
                               "(epoch 0): The size of tensor a (2) must match"),
                    kIsReadable));
}

TEST(Failure, OfACallbacksOwnClassPassesAsItIs) {
  TrainerOptions options = tiny_options();
  options.callbacks = CallAt(Event::kBatchEnd, [](State&) { throw OfTheUser(); });
  Trainer trainer(std::move(options));
  EXPECT_THROW(trainer.fit(), OfTheUser);
}

TEST(Failure, OfTheStandardLibraryInACallbackIsNamedToo) {
  TrainerOptions options = tiny_options();
  options.callbacks = CallAt(Event::kEpochEnd, [](State&) { std::vector<int>().at(3) = 1; });
  EXPECT_THAT(
      fit_failure(std::move(options)),
      StartsWith("the callback CallAt failed at the event epoch_end, after 5 batches (epoch 1): "
                 "vector"));
}

}  // namespace
}  // namespace cairn
