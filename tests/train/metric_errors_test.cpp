// Options, shapes and states that metrics refuse, and values of several elements in the Trainer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "cairn/callbacks/early_stopper.h"
#include "cairn/error.h"
#include "cairn/loggers/in_memory_logger.h"
#include "cairn/metrics/classification.h"
#include "cairn/metrics/language.h"
#include "cairn/metrics/mean.h"
#include "cairn/metrics/metrics.h"
#include "cairn/metrics/segmentation.h"
#include "cairn/train/state_dict.h"
#include "cairn/train/trainer.h"

#include "testing/message_of.h"
#include "testing/temp_folder.h"
#include "testing/tiny_model.h"

namespace cairn {
namespace {

using ::testing::HasSubstr;
using testing::message_of;

const at::Tensor kThree = torch::tensor({{3.0, 1.0, 0.0}, {0.0, 2.0, 1.0}});

template <class M, class Options>
std::string option_error(const Options& options) {
  return message_of<UsageError>([&] { M metric(options); });
}

TEST(MetricErrorsTest, NameTheOptionThatDoesNotFit) {
  const auto multiclass = option_error<MulticlassRecall, MulticlassScoreOptions>;
  EXPECT_THAT(multiclass({}), HasSubstr("MulticlassRecall: num_classes is 0"));
  EXPECT_THAT(multiclass({.num_classes = 3, .top_k = 4}), HasSubstr("top_k is 4"));
  EXPECT_THAT(multiclass({.num_classes = 3, .average = "mean"}),
              HasSubstr("average cannot be \"mean\""));
  EXPECT_THAT(multiclass({.num_classes = 3, .zero_division = 0.5}), HasSubstr("zero_division"));
  EXPECT_THAT((option_error<MultilabelF1Score, MultilabelScoreOptions>({.num_labels = 1})),
              HasSubstr("MultilabelF1Score: num_labels is 1"));
  EXPECT_THAT((option_error<BinaryAccuracy, BinaryScoreOptions>({.threshold = 50})),
              HasSubstr("threshold is 50"));
  EXPECT_THAT(
      (option_error<BinaryConfusionMatrix, BinaryConfusionMatrixOptions>({.normalize = "rows"})),
      HasSubstr("normalize cannot be \"rows\""));
  EXPECT_THAT((option_error<BinaryAUROC, BinaryAUROCOptions>({.thresholds = 1})),
              HasSubstr("thresholds is 1"));
  EXPECT_THAT((option_error<MulticlassAUROC, MulticlassAUROCOptions>(
                  {.num_classes = 3, .average = Average::kMicro})),
              HasSubstr("average cannot be \"micro\""));
  EXPECT_THAT((option_error<MeanAbsoluteError, MeanAbsoluteErrorOptions>({.num_outputs = 0})),
              HasSubstr("num_outputs is 0"));
  EXPECT_THAT((option_error<MIoU, MIoUOptions>({})), HasSubstr("MIoU: num_classes is 0"));
  EXPECT_THAT((option_error<Dice, DiceOptions>({})), HasSubstr("Dice: num_classes is 0"));
  EXPECT_THROW(LossMetric(nullptr), UsageError);
}

TEST(MetricErrorsTest, NameShapesAndTargetsThatDoNotFit) {
  const auto error = [](Metric&& metric, const at::Tensor& outputs, const at::Tensor& target) {
    return message_of<UsageError>([&] { metric.update(outputs, target); });
  };
  const auto accuracy = [] { return MulticlassAccuracy({.num_classes = 3}); };
  EXPECT_THAT(error(accuracy(), torch::zeros({2, 4}), torch::tensor({0, 1})),
              HasSubstr("MulticlassAccuracy: outputs are Float [2, 4] and targets [2]; expected"));
  EXPECT_THAT(error(accuracy(), kThree, torch::tensor({0, 3})), HasSubstr("from 0 to 2, found 3"));
  EXPECT_THAT(error(accuracy(), kThree, torch::tensor({0, -1})), HasSubstr("found -1"));
  EXPECT_THAT(error(accuracy(), torch::tensor({5, 1}), torch::tensor({0, 1})),
              HasSubstr("found 5"));
  EXPECT_THAT(error(accuracy(), kThree, torch::tensor({0.5, 1.0})), HasSubstr("not whole"));
  EXPECT_THAT(error(MulticlassAccuracy({.num_classes = 3, .top_k = 2}), torch::tensor({0, 1}),
                    torch::tensor({0, 1})),
              HasSubstr("without top_k"));
  EXPECT_THAT(error(BinaryAUROC(), torch::tensor({0, 1}), torch::tensor({0, 1})),
              HasSubstr("expected scores"));
  EXPECT_THAT(error(MultilabelRecall({.num_labels = 2}), kThree, kThree), HasSubstr("num_labels"));
  EXPECT_THAT(error(MeanSquaredError(), kThree, kThree[0]), HasSubstr("the same shape"));
  EXPECT_THAT(error(LanguageCrossEntropy(), kThree, kThree), HasSubstr("vocabulary"));
  EXPECT_THAT(error(Dice({.num_classes = 3}), kThree, torch::tensor({0, 1})),
              HasSubstr("scores with 4 classes"));
  EXPECT_THAT(
      error(LossMetric([](const at::Tensor& outputs, const at::Tensor&) { return outputs; }),
            kThree, kThree),
      HasSubstr("not a scalar"));
}

// --- States --------------------------------------------------------------------------------------

Value state_of(std::initializer_list<std::pair<const char*, at::Tensor>> entries) {
  Dict state;
  for (const auto& [key, tensor] : entries)
    state.set(key, view_of(tensor));
  return state;
}

// The message for a state that is refused. Afterwards the metric must be as it was.
std::string state_error(Metric& metric, const Value& state) {
  const Value before = metric.state_dict();
  const std::string message = message_of<MismatchError>([&] { metric.load_state_dict(state); });
  EXPECT_EQ(metric.state_dict(), before) << message;
  return message;
}

TEST(MetricErrorsTest, StatesThatDoNotFitChangeNothing) {
  const at::Tensor target = torch::tensor({0, 1});
  const at::Tensor counts = torch::ones({3}, at::kLong);
  MulticlassPrecision precision({.num_classes = 3});
  precision.update(kThree, target);
  EXPECT_THAT(state_error(precision, state_of({{"tp", counts}, {"fp", counts}})),
              HasSubstr("metric MulticlassPrecision has no tensor \"tn\""));
  const at::Tensor others = torch::ones({4}, at::kLong);
  EXPECT_THAT(state_error(precision, state_of({{"tp", counts}, {"fp", others}})),
              HasSubstr("has shape [4], expected [3]"));
  EXPECT_THAT(state_error(precision, state_of({{"tp", torch::ones({3})}})),
              HasSubstr("is not a whole number"));

  MaskedAccuracy masked;
  masked.update(kThree, target);
  const at::Tensor one = torch::ones({}, at::kLong);
  EXPECT_THAT(state_error(masked, state_of({{"correct", one}})), HasSubstr("no tensor \"total\""));
  LanguageCrossEntropy language;
  language.update(kThree, target);
  EXPECT_THAT(
      state_error(language, state_of({{"sum_loss", one}, {"total_items", one}})),
      HasSubstr("\"sum_loss\" in the saved state of metric LanguageCrossEntropy is a whole"));

  MIoU miou({.num_classes = 3});
  miou.update(kThree, target);
  EXPECT_THAT(state_error(miou, state_of({{"total_intersect", torch::ones({3}, at::kDouble)}})),
              HasSubstr("no tensor \"total_union\""));
  Dice dice({.num_classes = 2});
  dice.update(kThree, target);
  EXPECT_THAT(state_error(dice, state_of({{"n_updates", torch::ones({1})}})),
              HasSubstr("no tensor \"dice\""));
  MulticlassConfusionMatrix matrix({.num_classes = 3});
  matrix.update(kThree, target);
  EXPECT_THAT(state_error(matrix, state_of({{"confmat", torch::ones({2, 2}, at::kLong)}})),
              HasSubstr("has shape [2, 2], expected [3, 3]"));
}

TEST(MetricErrorsTest, StatesOfOtherCurvesChangeNothing) {
  const at::Tensor target = torch::tensor({0, 1});
  MulticlassAUROC exact({.num_classes = 3});
  exact.update(kThree, target);
  MulticlassAUROC binned({.num_classes = 3, .thresholds = 5});
  binned.update(kThree, target);
  EXPECT_THAT(state_error(exact, binned.state_dict()), HasSubstr("or with thresholds"));
  EXPECT_THAT(state_error(binned, exact.state_dict()), HasSubstr("no tensor \"confmat\""));
  const auto lists = [](const at::Tensor& scores, const at::Tensor& classes) {
    return Dict{{"preds", List{view_of(scores)}}, {"target", List{view_of(classes)}}};
  };
  EXPECT_THAT(state_error(exact, lists(kThree[0], target)), HasSubstr("of 2 dimensions"));
  EXPECT_THAT(state_error(exact, lists(torch::ones({2, 4}), target)), HasSubstr("do not fit"));
  EXPECT_THAT(state_error(exact, lists(torch::ones({3, 3}), target)), HasSubstr("do not fit"));
}

// torchmetrics before 1.5 has a scalar for one output.
TEST(MetricErrorsTest, AScalarSumOfOneOutputIsTaken) {
  MeanAbsoluteError error;
  error.load_state_dict(state_of(
      {{"sum_abs_error", torch::full({}, 3.0F)}, {"total", torch::full({}, 2, at::kLong)}}));
  EXPECT_FLOAT_EQ(error.compute().item<float>(), 1.5F);
  EXPECT_EQ(error.state_dict().at("sum_abs_error").as_tensor().shape, Dims{1});
}

// --- In the Trainer ------------------------------------------------------------------------------

TrainerOptions with_matrix() {
  TrainerOptions options = testing::tiny_options();
  torch::nn::Linear net(4, 3);
  net->to(at::kDouble);
  const HandleList<Metric> metrics = {MulticlassConfusionMatrix({.num_classes = 3}),
                                      MulticlassAUROC({.num_classes = 3})};
  options.model = classifier(net, {.val_metrics = metrics});
  options.eval_dataloader = Evaluator{.label = "eval", .dataloader = testing::tiny_loader(10)};
  options.eval_interval = "1ep";
  options.save_metrics = true;
  return options;
}

TEST(MetricMatrixTest, IsLoggedAsListsAndKeptAsATensor) {
  TrainerOptions options = with_matrix();
  const auto log = std::make_shared<InMemoryLogger>();
  options.loggers = log;
  Trainer trainer(options);
  trainer.fit();
  const State& state = trainer.state();
  const Value* kept = find_path(Value(state.metric_values), "eval/MulticlassConfusionMatrix");
  ASSERT_NE(kept, nullptr);
  const at::Tensor matrix = tensor_of(kept->as_tensor());
  EXPECT_EQ(matrix.sum().item<std::int64_t>(), 10);
  EXPECT_EQ(state.metric_value("eval", "MulticlassConfusionMatrix"), std::nullopt);
  EXPECT_TRUE(state.metric_value("eval", "MulticlassAUROC").has_value());
  const List& rows = log->most_recent_value("metrics/eval/MulticlassConfusionMatrix").as_items();
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[1].as_items().at(2).as_float(), matrix[1][2].item<double>());
}

TEST(MetricMatrixTest, IsSavedAndComesBack) {
  const testing::TempFolder folder;
  Trainer trainer(with_matrix());
  trainer.fit();
  const std::string path = trainer.save_checkpoint(folder / "matrix.pt");
  const Value saved =
      load(path).at("state").at("eval_metrics").at("eval").at("MulticlassConfusionMatrix");
  EXPECT_EQ(saved.at("_computed"), saved.at("state_dict").at("confmat"));
  Trainer resumed(with_matrix());
  load_checkpoint(path, resumed.state(), resumed.logger());
  EXPECT_EQ(resumed.state().metric_values.at("eval").at("MulticlassConfusionMatrix"),
            saved.at("_computed"));
  const auto& was = trainer.state().eval_metrics.front().second;
  const auto& is = resumed.state().eval_metrics.front().second;
  for (std::size_t i = 0; i < was.size(); ++i)
    EXPECT_EQ(is[i].second->state_dict(), was[i].second->state_dict());
}

TEST(MetricMatrixTest, CannotStopTraining) {
  TrainerOptions options = with_matrix();
  options.callbacks =
      EarlyStopper({.monitor = "MulticlassConfusionMatrix", .dataloader_label = "eval"});
  Trainer trainer(std::move(options));
  EXPECT_THAT(message_of<UsageError>([&] { trainer.fit(); }), HasSubstr("not one number"));
}

}  // namespace
}  // namespace cairn
