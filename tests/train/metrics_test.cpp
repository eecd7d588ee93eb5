#include "cairn/metrics/metrics.h"

#include <ATen/record_function.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"
#include "cairn/train/model.h"
#include "cairn/train/state_dict.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const at::Tensor kScores =
    torch::tensor({{3.0, 1.0, 0.0}, {0.0, 2.0, 1.0}, {0.0, 0.5, 1.0}, {9.0, 0.0, 0.0}});
const at::Tensor kTarget = torch::tensor({0, 1, 1, 0});

std::int64_t count(const Value& state, const char* key) {
  return tensor_of(state.at(key).as_tensor()).item<std::int64_t>();
}

std::vector<std::int64_t> counts(const Value& state) {
  return {count(state, "tp"), count(state, "fp"), count(state, "tn"), count(state, "fn")};
}

TEST(AccuracyTest, IsThePartOfCorrectAnswersOverAllUpdates) {
  Accuracy accuracy;
  accuracy.update(kScores, kTarget);
  EXPECT_FLOAT_EQ(accuracy.compute().item<float>(), 0.75F);
  accuracy.update(kScores.slice(0, 0, 2), kTarget.slice(0, 2, 4));
  EXPECT_FLOAT_EQ(accuracy.compute().item<float>(), 3.0F / 6);
  accuracy.reset();
  EXPECT_TRUE(std::isnan(accuracy.compute().item<float>()));
}

TEST(AccuracyTest, CountsAsTorchmetricsDoes) {
  Accuracy accuracy;
  accuracy.update(kScores, kTarget);
  EXPECT_THAT(counts(accuracy.state_dict()), ElementsAre(3, 1, 7, 1));
  EXPECT_THAT(accuracy.state_dict().at("tp").as_tensor().shape, ElementsAre(1));
}

TEST(AccuracyTest, TakesClassesInsteadOfScores) {
  Accuracy accuracy({.num_classes = 3});
  accuracy.update(torch::tensor({0, 2, 1, 0}), kTarget);
  EXPECT_THAT(counts(accuracy.state_dict()), ElementsAre(3, 1, 7, 1));
  EXPECT_THROW(accuracy.update(torch::zeros({4, 3, 2}), kTarget), UsageError);
}

// If the outputs are classes, Accuracy does not learn how many classes there are.
TEST(AccuracyTest, OfClassesAloneItsStatesCanBeMergedAndLoaded) {
  Accuracy one;
  one.update(torch::tensor({0, 2, 1, 0}), kTarget);
  Accuracy other;
  other.update(torch::tensor({1, 1}), torch::tensor({1, 1}));
  Accuracy both;
  both.load_state_dict(
      one.merge_states({one.state_dict(), Accuracy().state_dict(), other.state_dict()}));
  EXPECT_FLOAT_EQ(both.compute().item<float>(), 5.0F / 6);
  both.update(kScores, kTarget);
  EXPECT_THAT(counts(both.state_dict()), ElementsAre(8, 2, 18, 2));
}

TEST(AccuracyTest, ReadsWhatComposerSavedAndWritesItAgain) {
  for (const char* name : {"ep0-ba3", "ep0-ba5", "ep1-ba8", "ep2-ba15"}) {
    const Value saved =
        load(std::string(CAIRN_TEST_DATA "/composer-0.33/adam_steplr/") + name + "-rank0.pt")
            .at("state")
            .at("train_metrics")
            .at("MulticlassAccuracy");
    Accuracy accuracy;
    accuracy.load_state_dict(saved.at("state_dict"));
    EXPECT_EQ(accuracy.state_dict(), saved.at("state_dict")) << name;
    EXPECT_FLOAT_EQ(accuracy.compute().item<float>(),
                    tensor_of(saved.at("_computed").as_tensor()).item<float>());
  }
}

TEST(AccuracyTest, CloneCountsOnItsOwn) {
  Accuracy accuracy;
  accuracy.update(kScores, kTarget);
  const auto copy = accuracy.clone();
  copy->update(kScores, kTarget);
  EXPECT_THAT(counts(accuracy.state_dict()), ElementsAre(3, 1, 7, 1));
  EXPECT_THAT(counts(copy->state_dict()), ElementsAre(6, 2, 14, 2));
}

TEST(CrossEntropyTest, IsTheMeanOfTheUpdatesMeans) {
  CrossEntropy loss;
  EXPECT_TRUE(std::isnan(loss.compute().item<float>()));
  loss.update(kScores, kTarget);
  loss.update(kScores.slice(0, 0, 1), kTarget.slice(0, 0, 1));
  const double first = torch::nn::functional::cross_entropy(kScores, kTarget).item<double>();
  const double second = std::log(1 + std::exp(-2.0) + std::exp(-3.0));
  EXPECT_NEAR(loss.compute().item<double>(), (first + second) / 2, 1e-6);
  EXPECT_EQ(count(loss.state_dict(), "total_batches"), 2);
  EXPECT_EQ(loss.state_dict().at("sum_loss").as_tensor().dtype, DType::kFloat32);
}

TEST(CrossEntropyTest, LeavesOutIgnoredClasses) {
  CrossEntropy loss;
  loss.update(kScores, torch::tensor({0, -100, -100, 0}));
  CrossEntropy of_two;
  of_two.update(kScores.index_select(0, torch::tensor({0, 3})), torch::tensor({0, 0}));
  EXPECT_FLOAT_EQ(loss.compute().item<float>(), of_two.compute().item<float>());
}

TEST(CrossEntropyTest, ContinuesFromASavedState) {
  CrossEntropy saved;
  saved.update(kScores, kTarget);
  CrossEntropy loaded;
  loaded.load_state_dict(saved.state_dict());
  EXPECT_EQ(loaded.state_dict(), saved.state_dict());
  loaded.update(kScores, kTarget);
  EXPECT_FLOAT_EQ(loaded.compute().item<float>(), saved.compute().item<float>());
}

template <class M>
std::string refusal(M metric, const Value& state) {
  try {
    metric.load_state_dict(state);
  } catch (const MismatchError& e) {
    return e.what();
  }
  return "nothing was thrown";
}

TEST(MetricsTest, RefuseStatesThatDoNotFitByName) {
  const auto entry = [](const at::Tensor& tensor) { return view_of(tensor); };
  EXPECT_THAT(refusal(Accuracy(), Dict()), HasSubstr("MulticlassAccuracy has no tensor \"tp\""));
  EXPECT_THAT(refusal(Accuracy(), Dict{{"tp", entry(torch::zeros({4}, at::kLong))}}),
              HasSubstr("has shape [4], expected [1]"));
  const Value one = entry(torch::ones({1}, at::kLong));
  const Value two = entry(torch::full({1}, 2, at::kLong));
  EXPECT_THAT(refusal(Accuracy(), Dict{{"tp", one}, {"fp", one}, {"tn", one}, {"fn", two}}),
              HasSubstr("contradicts itself"));
  EXPECT_THAT(refusal(CrossEntropy(), Dict{{"sum_loss", entry(torch::zeros({}))}}),
              HasSubstr("no tensor \"total_batches\""));
  EXPECT_THAT(refusal(CrossEntropy(), Dict{{"sum_loss", entry(torch::zeros({}))},
                                           {"total_batches", entry(torch::zeros({}))}}),
              HasSubstr("not a whole number"));
}

// The number of calls of libtorch that wait for a device. Such a call reads the number in a tensor,
// or moves the tensor to another device. If the tensor is already on the CPU, a move does nothing,
// but is counted.
thread_local int g_waits = 0;

std::unique_ptr<at::ObserverContext> note_wait(const at::RecordFunction& call) {
  constexpr std::array kWaiting = {std::string_view("aten::_local_scalar_dense"),
                                   std::string_view("aten::to")};
  g_waits += static_cast<int>(std::ranges::count(kWaiting, std::string_view(call.name())));
  return nullptr;
}

int waits_of(const std::function<void()>& work) {
  const at::CallbackHandle handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback(note_wait).scopes({at::RecordScope::FUNCTION}));
  g_waits = 0;
  work();
  at::removeCallback(handle);
  return g_waits;
}

// Gathering a state must not delay training.
TEST(MetricsTest, WaitForNoDeviceWhileTheirStateIsGathered) {
  Accuracy accuracy;
  CrossEntropy loss;
  for (Metric* metric : std::vector<Metric*>{&accuracy, &loss}) {
    metric->update(kScores, kTarget);
    EXPECT_EQ(waits_of([&] { metric->state_dict(); }), 0) << metric->name();
  }
  const at::Tensor one = torch::ones({1});
  EXPECT_EQ(waits_of([&] { one.item<double>(); }), 1);
  EXPECT_EQ(waits_of([&] { one.cpu(); }), 1);
  EXPECT_EQ(waits_of([&] { one.to(at::kCPU); }), 1);
}

TEST(AccuracyTest, AStateIsOfTheMomentInWhichItWasTaken) {
  Accuracy accuracy;
  accuracy.update(kScores, kTarget);
  const Value state = accuracy.state_dict();
  accuracy.update(kScores, kTarget);
  EXPECT_THAT(counts(state), ElementsAre(3, 1, 7, 1));
}

// --- The classifier ------------------------------------------------------------------------------

TEST(SoftCrossEntropyTest, TakesIndicesAndProbabilities) {
  const at::Tensor by_index = soft_cross_entropy(kScores, kTarget);
  const at::Tensor one_hot = torch::one_hot(kTarget, 3).to(at::kFloat);
  EXPECT_TRUE(torch::allclose(soft_cross_entropy(kScores, one_hot), by_index));
  // If probabilities do not sum to one, a sample's weight is their sum.
  const at::Tensor weights = torch::tensor({1.0, 0.5, 0.0, 0.0}).unsqueeze(1);
  const at::Tensor losses = -kScores.log_softmax(1).gather(1, kTarget.unsqueeze(1)).squeeze(1);
  EXPECT_TRUE(torch::allclose(soft_cross_entropy(kScores, one_hot * weights),
                              (losses[0] + 0.5 * losses[1]) / 1.5));
}

TEST(SoftCrossEntropyTest, RefusesTargetsThatAreNeither) {
  EXPECT_THROW(soft_cross_entropy(kScores, torch::zeros({4, 2})), UsageError);
  EXPECT_THROW(soft_cross_entropy(kScores, torch::zeros({4, 3})), UsageError);
}

std::vector<std::string> names(const Metrics& metrics) {
  std::vector<std::string> found;
  for (const auto& [name, metric] : metrics) {
    found.push_back(name);
  }
  return found;
}

TEST(ClassifierTest, HasComposersNamesMetricsAndLoss) {
  const auto model = classifier(torch::nn::Linear(2, 3), {.num_classes = 3});
  EXPECT_EQ(model->module().named_parameters().keys(),
            (std::vector<std::string>{"module.weight", "module.bias"}));
  EXPECT_THAT(names(model->get_metrics(true)), ElementsAre("MulticlassAccuracy"));
  EXPECT_THAT(names(model->get_metrics(false)), ElementsAre("CrossEntropy", "MulticlassAccuracy"));
  const Batch batch = {torch::ones({4, 2}), kTarget};
  const Outputs outputs = model->forward(batch);
  EXPECT_TRUE(
      model->loss(outputs, batch).single().equal(soft_cross_entropy(outputs.single(), kTarget)));
}

TEST(ClassifierTest, GivesFreshMetricsAndTakesOnesOwn) {
  const auto model = classifier(torch::nn::Linear(2, 3), {.val_metrics = CrossEntropy()});
  const Metrics first = model->get_metrics(false);
  const Metrics second = model->get_metrics(false);
  EXPECT_THAT(names(first), ElementsAre("CrossEntropy"));
  first[0].second->update(kScores, kTarget);
  EXPECT_TRUE(std::isnan(second[0].second->compute().item<float>()));
}

TEST(ClassifierTest, UsesTheLossThatIsGiven) {
  const auto model = classifier(
      torch::nn::Linear(2, 3),
      {.loss_fn = [](const at::Tensor& outputs, const at::Tensor&) { return outputs.sum(); }});
  const Batch batch = {torch::ones({4, 2}), kTarget};
  const Outputs outputs = model->forward(batch);
  EXPECT_TRUE(model->loss(outputs, batch).single().equal(outputs.single().sum()));
}

}  // namespace
}  // namespace cairn
