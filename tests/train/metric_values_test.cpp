// Compares the metrics with those of torchmetrics and Composer: values, states, and states that
// Python saved. tests/data/write_metrics.py wrote the cases.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <fstream>
#include <functional>
#include <map>

#include "cairn/metrics/classification.h"
#include "cairn/metrics/language.h"
#include "cairn/metrics/mean.h"
#include "cairn/metrics/metrics.h"
#include "cairn/metrics/segmentation.h"
#include "cairn/train/state_dict.h"

#include "core/text/json.h"

namespace cairn {
namespace {

struct MetricUpdate {
  at::Tensor outputs;
  at::Tensor target;
};

struct MetricCase {
  std::string trace;
  std::string metric;
  OrderedJson options;
  std::vector<MetricUpdate> updates;
  Value state;
  at::Tensor value;
};

at::Tensor tensor_from(const OrderedJson& json) {
  const std::string dtype = json.at("dtype");
  const std::vector<std::int64_t> shape = json.at("shape");
  const std::vector<double> elements = json.at("elements");
  const at::ScalarType to = dtype == "int64"     ? at::kLong
                            : dtype == "float64" ? at::kDouble
                                                 : at::kFloat;
  return torch::tensor(elements, at::kDouble).to(to).reshape(shape);
}

Value state_from(const OrderedJson& json) {
  Dict state = Dict::ordered();
  for (const auto& [key, entry] : json.items()) {
    if (entry.is_object()) {
      state.set(key, view_of(tensor_from(entry)));
      continue;
    }
    List items;
    for (const OrderedJson& item : entry)
      items.emplace_back(view_of(tensor_from(item)));
    state.set(key, items);
  }
  return state;
}

std::vector<MetricCase> read_cases() {
  std::ifstream file(CAIRN_TEST_DATA "/torchmetrics-1.7/metrics.json");
  const OrderedJson json = OrderedJson::parse(file);
  std::map<std::string, std::vector<MetricUpdate>> updates;
  for (const auto& [name, list] : json.at("updates").items()) {
    for (const OrderedJson& pair : list)
      updates[name].push_back({tensor_from(pair[0]), tensor_from(pair[1])});
  }
  std::vector<MetricCase> cases;
  for (const OrderedJson& each : json.at("cases")) {
    const std::string name = each.at("metric");
    const std::string data = each.at("updates");
    cases.push_back({name + " " + each.at("options").dump() + " " + data, name, each.at("options"),
                     updates.at(data), state_from(each.at("state_dict")),
                     tensor_from(each.at("value"))});
  }
  return cases;
}

const std::vector<MetricCase>& metric_cases() {
  static const std::vector<MetricCase> cases = read_cases();
  return cases;
}

// --- Options from their JSON ---------------------------------------------------------------------

template <class T>
void read(const OrderedJson& json, const char* key, T& option) {
  if (json.contains(key)) option = json.at(key).get<T>();
}

template <class T>
void read(const OrderedJson& json, const char* key, std::optional<T>& option) {
  if (json.contains(key)) option = json.at(key).get<T>();
}

template <class Enum>
void read(const OrderedJson& json, const char* key, Word<Enum>& option) {
  if (json.contains(key)) option = json.at(key).get<std::string>();
}

// Fills in every option that the struct and the case have.
template <class Options>
Options options_from(const OrderedJson& json) {
  Options options;
  const auto fill = [&json](const char* key, auto& option) { read(json, key, option); };
  if constexpr (requires { options.num_classes; }) fill("num_classes", options.num_classes);
  if constexpr (requires { options.num_labels; }) fill("num_labels", options.num_labels);
  if constexpr (requires { options.num_outputs; }) fill("num_outputs", options.num_outputs);
  if constexpr (requires { options.threshold; }) fill("threshold", options.threshold);
  if constexpr (requires { options.thresholds; }) fill("thresholds", options.thresholds);
  if constexpr (requires { options.top_k; }) fill("top_k", options.top_k);
  if constexpr (requires { options.average; }) fill("average", options.average);
  if constexpr (requires { options.normalize; }) fill("normalize", options.normalize);
  if constexpr (requires { options.squared; }) fill("squared", options.squared);
  if constexpr (requires { options.ignore_index; }) fill("ignore_index", options.ignore_index);
  if constexpr (requires { options.zero_division; }) fill("zero_division", options.zero_division);
  return options;
}

using MetricMaker = std::function<std::unique_ptr<Metric>(const OrderedJson& options)>;

template <class M, class Options>
MetricMaker maker() {
  return [](const OrderedJson& json) { return std::make_unique<M>(options_from<Options>(json)); };
}

template <detail::Score kScore>
void add_score(std::map<std::string, MetricMaker>& makers, const std::string& name) {
  makers["Binary" + name] = maker<BinaryScore<kScore>, BinaryScoreOptions>();
  makers["Multiclass" + name] = maker<MulticlassScore<kScore>, MulticlassScoreOptions>();
  makers["Multilabel" + name] = maker<MultilabelScore<kScore>, MultilabelScoreOptions>();
}

std::map<std::string, MetricMaker> make_makers() {
  std::map<std::string, MetricMaker> makers = {
      {"BinaryConfusionMatrix", maker<BinaryConfusionMatrix, BinaryConfusionMatrixOptions>()},
      {"MulticlassConfusionMatrix",
       maker<MulticlassConfusionMatrix, MulticlassConfusionMatrixOptions>()},
      {"MultilabelConfusionMatrix",
       maker<MultilabelConfusionMatrix, MultilabelConfusionMatrixOptions>()},
      {"BinaryAUROC", maker<BinaryAUROC, BinaryAUROCOptions>()},
      {"MulticlassAUROC", maker<MulticlassAUROC, MulticlassAUROCOptions>()},
      {"MultilabelAUROC", maker<MultilabelAUROC, MultilabelAUROCOptions>()},
      {"MeanSquaredError", maker<MeanSquaredError, MeanSquaredErrorOptions>()},
      {"MeanAbsoluteError", maker<MeanAbsoluteError, MeanAbsoluteErrorOptions>()},
      {"Perplexity", maker<Perplexity, PerplexityOptions>()},
      {"LanguageCrossEntropy", maker<LanguageCrossEntropy, LanguageMetricOptions>()},
      {"LanguagePerplexity", maker<LanguagePerplexity, LanguageMetricOptions>()},
      {"MaskedAccuracy", maker<MaskedAccuracy, LanguageMetricOptions>()},
      {"MIoU", maker<MIoU, MIoUOptions>()},
      {"Dice", maker<Dice, DiceOptions>()},
      {"CrossEntropy", maker<CrossEntropy, CrossEntropyOptions>()},
      {"LossMetric", [](const OrderedJson& /*options*/) {
         return std::make_unique<LossMetric>(
             [](const at::Tensor& outputs, const at::Tensor& target) {
               return torch::mse_loss(outputs, target);
             });
       }}};
  add_score<detail::Score::kAccuracy>(makers, "Accuracy");
  add_score<detail::Score::kPrecision>(makers, "Precision");
  add_score<detail::Score::kRecall>(makers, "Recall");
  add_score<detail::Score::kF1Score>(makers, "F1Score");
  return makers;
}

std::unique_ptr<Metric> metric_of(const MetricCase& each) {
  static const std::map<std::string, MetricMaker> makers = make_makers();
  return makers.at(each.metric)(each.options);
}

// --- Comparisons ---------------------------------------------------------------------------------

void update_all(Metric& metric, const MetricCase& each) {
  for (const auto& [outputs, target] : each.updates)
    metric.update(outputs, target);
}

// The same entries in the same order, dtypes and shapes, whole numbers exactly.
void expect_like(const Value& is, const Value& expected) {
  ASSERT_EQ(is.kind(), expected.kind());
  if (is.is_tensor()) {
    const at::Tensor a = tensor_of(is.as_tensor());
    const at::Tensor b = tensor_of(expected.as_tensor());
    ASSERT_EQ(a.scalar_type(), b.scalar_type());
    ASSERT_EQ(a.sizes(), b.sizes());
    EXPECT_TRUE(a.is_floating_point() ? torch::allclose(a, b, 1e-5, 1e-6) : a.equal(b))
        << a << "\nexpected\n"
        << b;
  } else if (is.is_list()) {
    ASSERT_EQ(is.as_items().size(), expected.as_items().size());
    for (std::size_t i = 0; i < is.as_items().size(); ++i)
      expect_like(is.as_items()[i], expected.as_items()[i]);
  } else {
    ASSERT_EQ(is.as_dict().size(), expected.as_dict().size());
    auto entry = expected.as_dict().begin();
    for (const auto& [key, value] : is.as_dict()) {
      EXPECT_EQ(key, entry->first);
      expect_like(value, entry->second);
      ++entry;
    }
  }
}

void expect_value(Metric& metric, const at::Tensor& expected) {
  const at::Tensor value = metric.compute();
  ASSERT_EQ(value.sizes(), expected.sizes());
  EXPECT_TRUE(torch::allclose(value.to(at::kDouble), expected.to(at::kDouble), 1e-5, 1e-6))
      << value << "\nexpected\n"
      << expected;
}

TEST(MetricValuesTest, HaveEveryMetric) {
  std::map<std::string, int> cases;
  for (const MetricCase& each : metric_cases()) {
    EXPECT_EQ(metric_of(each)->name(), each.metric);
    ++cases[each.metric];
  }
  EXPECT_EQ(cases.size(), 28U);
}

TEST(MetricValuesTest, AnAreaOfNothingIsNaN) {
  for (const Average average : {Average::kMacro, Average::kWeighted}) {
    for (const std::optional<std::int64_t> thresholds : {std::optional<std::int64_t>(), {5}}) {
      MultilabelAUROC labels(
          {.num_labels = 2, .average = average, .thresholds = thresholds, .ignore_index = -1});
      labels.update(torch::rand({3, 2}), torch::full({3, 2}, -1));
      EXPECT_TRUE(std::isnan(labels.compute().item<double>()));
      MulticlassAUROC classes(
          {.num_classes = 2, .average = average, .thresholds = thresholds, .ignore_index = -1});
      classes.update(torch::rand({3, 2}), torch::full({3}, -1));
      EXPECT_TRUE(std::isnan(classes.compute().item<double>()));
    }
  }
}

TEST(MetricValuesTest, AndStatesAreThoseOfPython) {
  for (const MetricCase& each : metric_cases()) {
    SCOPED_TRACE(each.trace);
    const auto metric = metric_of(each);
    update_all(*metric, each);
    expect_value(*metric, each.value);
    expect_like(metric->state_dict(), each.state);
  }
}

TEST(MetricValuesTest, ContinueFromAStateOfPython) {
  for (const MetricCase& each : metric_cases()) {
    SCOPED_TRACE(each.trace);
    const auto metric = metric_of(each);
    metric->load_state_dict(each.state);
    EXPECT_EQ(metric->state_dict(), each.state);
    expect_value(*metric, each.value);
    // Every sample twice changes no mean, and doubles counts.
    update_all(*metric, each);
    const bool are_counts =
        each.metric.ends_with("ConfusionMatrix") && each.options.at("normalize") == "none";
    expect_value(*metric, are_counts ? each.value * 2 : each.value);
  }
}

TEST(MetricValuesTest, OverRanksAreThoseOfAllSamples) {
  for (const MetricCase& each : metric_cases()) {
    SCOPED_TRACE(each.trace);
    const auto metric = metric_of(each);
    std::vector<Value> states;
    for (const auto& [outputs, target] : each.updates) {
      const auto of_rank = metric->clone();
      of_rank->update(outputs, target);
      states.push_back(of_rank->state_dict());
    }
    states.push_back(metric->state_dict());  // a rank without a batch
    const auto of_all = metric->clone();
    of_all->load_state_dict(metric->merge_states(states));
    expect_value(*of_all, each.value);
    expect_like(of_all->state_dict(), each.state);
  }
}

// All zeros of the same shapes and dtypes, or empty lists.
Value empty_like(const Value& state) {
  Dict empty = Dict::ordered();
  for (const auto& [key, value] : state.as_dict()) {
    const bool is_tensor = value.is_tensor();
    empty.set(key, is_tensor ? Value(view_of(torch::zeros_like(tensor_of(value.as_tensor()))))
                             : Value(List()));
  }
  return empty;
}

TEST(MetricValuesTest, StartAndResetToNothing) {
  for (const MetricCase& each : metric_cases()) {
    SCOPED_TRACE(each.trace);
    const auto metric = metric_of(each);
    const Value empty = empty_like(each.state);
    EXPECT_EQ(metric->state_dict(), empty);
    update_all(*metric, each);
    metric->reset();
    EXPECT_EQ(metric->state_dict(), empty);
    const bool is_matrix = each.metric.ends_with("ConfusionMatrix");
    EXPECT_TRUE(is_matrix ? metric->compute().eq(0).all().item<bool>()
                          : metric->compute().isnan().all().item<bool>());
    // A rank without samples gives this state to the others.
    metric->load_state_dict(empty);
    EXPECT_TRUE(is_matrix || metric->compute().isnan().all().item<bool>());
    update_all(*metric, each);
    expect_value(*metric, each.value);
  }
}

TEST(MetricValuesTest, StatesAndClonesKeepTheirMoment) {
  for (const MetricCase& each : metric_cases()) {
    SCOPED_TRACE(each.trace);
    const auto metric = metric_of(each);
    update_all(*metric, each);
    const Value state = metric->state_dict();
    const auto copy = metric->clone();
    update_all(*metric, each);
    expect_like(state, each.state);
    expect_like(copy->state_dict(), each.state);
    copy->reset();
    EXPECT_EQ(metric->clone()->state_dict(), metric->state_dict());
  }
}

TEST(MetricValuesTest, AreTheSameUnderAnotherDtypeOfOutputs) {
  for (const MetricCase& each : metric_cases()) {
    if (!each.updates.front().outputs.is_floating_point() || each.metric == "LossMetric") continue;
    SCOPED_TRACE(each.trace);
    const auto metric = metric_of(each);
    for (const auto& [outputs, target] : each.updates)
      metric->update(outputs.to(at::kDouble), target);
    expect_value(*metric, each.value);
  }
}

}  // namespace
}  // namespace cairn
