// Algorithms do step by step what Composer's do with the same random numbers.
// tests/data/write_algorithms.py wrote the cases.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cairn/algorithms/cutmix.h"
#include "cairn/algorithms/cutout.h"
#include "cairn/algorithms/layer_freezing.h"
#include "cairn/algorithms/mixup.h"
#include "cairn/algorithms/progressive_resizing.h"
#include "cairn/algorithms/sam.h"
#include "cairn/algorithms/selective_backprop.h"
#include "cairn/algorithms/seq_length_warmup.h"
#include "cairn/algorithms/swa.h"
#include "cairn/checkpoint/checkpoint.h"
#include "cairn/loggers/in_memory_logger.h"
#include "cairn/train/optimizer.h"
#include "cairn/train/parameters.h"
#include "cairn/train/state.h"
#include "cairn/train/state_dict.h"

#include "testing/test_data.h"

namespace cairn {
namespace {

using ::testing::TestWithParam;

constexpr std::int64_t kBatchesPerEpoch = 2;

const Value& golden() {
  static const Value all = load(testing::kData + "/composer-0.33/algorithms.pt");
  return all;
}

at::Tensor tensor_in(const Value& value) { return tensor_of(value.as_tensor()).clone(); }

Batch batch_in(const Value& value) {
  if (!value.is_dict()) {
    return Batch{tensor_in(value.as_items()[0]), tensor_in(value.as_items()[1])};
  }
  std::vector<std::pair<std::string, at::Tensor>> items;
  for (const auto& [name, tensor] : value.as_dict())
    items.emplace_back(name.as_str(), tensor_in(tensor));
  return Batch::named(items);
}

// Gives the numbers that Composer drew. Fails the test if others are asked for.
class RecordedDraws final : public Draws {
 public:
  explicit RecordedDraws(const Value& draws) : draws_(draws.as_items()) {}
  ~RecordedDraws() override { EXPECT_EQ(next_, draws_.size()) << "numbers were not drawn"; }

  double beta(double alpha) override {
    const List& entry = next("beta");
    EXPECT_EQ(entry[1].as_items()[0].as_float(), alpha);
    return entry[2].as_float();
  }
  std::int64_t integer(std::int64_t low, std::int64_t high) override {
    const List& entry = next("integer");
    EXPECT_EQ(entry[1].as_items()[0].as_int(), low);
    EXPECT_EQ(entry[1].as_items()[1].as_int(), high);
    return entry[2].as_int();
  }
  at::Tensor permutation(std::int64_t size) override {
    const List& entry = next("permutation");
    EXPECT_EQ(entry[1].as_items()[0].as_int(), size);
    return tensor_in(entry[2]);
  }
  at::Tensor choice(const at::Tensor& weights, std::int64_t count) override {
    const List& entry = next("choice");
    EXPECT_TRUE(torch::allclose(tensor_in(entry[1].as_items()[0]), weights, 1e-12, 1e-15));
    EXPECT_EQ(entry[1].as_items()[1].as_int(), count);
    return tensor_in(entry[2]);
  }

 private:
  const List& next(const std::string& kind) {
    const List& entry = draws_.at(next_++).as_items();
    EXPECT_EQ(entry[0].as_str(), kind);
    return entry;
  }

  List draws_;
  std::size_t next_ = 0;
};

// Sets options that the case gives; the others keep their defaults.
class CaseOptions {
 public:
  explicit CaseOptions(const Value& options) : options_(options) {}

  void operator()(const char* name, double& option) const {
    if (const Value* value = options_.find(name)) option = value->as_float();
  }
  void operator()(const char* name, std::int64_t& option) const {
    if (const Value* value = options_.find(name)) option = value->as_int();
  }
  void operator()(const char* name, bool& option) const {
    if (const Value* value = options_.find(name)) option = value->as_bool();
  }
  template <class Text>
  requires std::constructible_from<Text, std::string>
  void operator()(const char* name, Text& option) const {
    if (const Value* value = options_.find(name)) option = Text(value->as_str());
  }
  template <class T>
  void operator()(const char* name, std::optional<T>& option) const {
    if (options_.find(name) == nullptr) return;
    option.emplace();
    (*this)(name, *option);
  }

 private:
  const Value& options_;
};

using Make = std::function<std::shared_ptr<Algorithm>(const CaseOptions&, std::shared_ptr<Draws>)>;

std::shared_ptr<Algorithm> make_swa(const CaseOptions& set, const std::shared_ptr<Draws>&) {
  SWAOptions options;
  set("swa_start", options.swa_start);
  set("swa_end", options.swa_end);
  set("update_interval", options.update_interval);
  set("schedule_swa_lr", options.schedule_swa_lr);
  set("anneal_strategy", options.anneal_strategy);
  set("anneal_steps", options.anneal_steps);
  // Composer takes this rate in a run without schedulers.
  if (options.schedule_swa_lr) options.swa_lr = 1.0;
  return std::make_shared<SWA>(options);
}

const std::map<std::string, Make>& makers() {
  static const std::map<std::string, Make> all = {
      {"MixUp",
       [](const CaseOptions& set, std::shared_ptr<Draws> draws) {
         MixUpOptions options;
         set("alpha", options.alpha);
         set("interpolate_loss", options.interpolate_loss);
         return std::make_shared<MixUp>(options, std::move(draws));
       }},
      {"CutMix",
       [](const CaseOptions& set, std::shared_ptr<Draws> draws) {
         CutMixOptions options;
         set("alpha", options.alpha);
         set("interpolate_loss", options.interpolate_loss);
         set("uniform_sampling", options.uniform_sampling);
         return std::make_shared<CutMix>(options, std::move(draws));
       }},
      {"CutOut",
       [](const CaseOptions& set, std::shared_ptr<Draws> draws) {
         CutOutOptions options;
         set("num_holes", options.num_holes);
         set("length", options.length);
         set("uniform_sampling", options.uniform_sampling);
         return std::make_shared<CutOut>(options, std::move(draws));
       }},
      {"SWA", make_swa},
      {"LayerFreezing",
       [](const CaseOptions& set, const std::shared_ptr<Draws>&) {
         LayerFreezingOptions options;
         set("freeze_start", options.freeze_start);
         set("freeze_level", options.freeze_level);
         return std::make_shared<LayerFreezing>(options);
       }},
      {"ProgressiveResizing",
       [](const CaseOptions& set, std::shared_ptr<Draws> draws) {
         ProgressiveResizingOptions options;
         set("mode", options.mode);
         set("initial_scale", options.initial_scale);
         set("finetune_fraction", options.finetune_fraction);
         set("delay_fraction", options.delay_fraction);
         set("size_increment", options.size_increment);
         return std::make_shared<ProgressiveResizing>(options, std::move(draws));
       }},
      {"SAM",
       [](const CaseOptions& set, const std::shared_ptr<Draws>&) {
         SAMOptions options;
         set("rho", options.rho);
         set("interval", options.interval);
         return std::make_shared<SAM>(options);
       }},
      {"SelectiveBackprop",
       [](const CaseOptions& set, std::shared_ptr<Draws> draws) {
         SelectiveBackpropOptions options;
         set("start", options.start);
         set("end", options.end);
         set("keep", options.keep);
         set("scale_factor", options.scale_factor);
         set("interrupt", options.interrupt);
         return std::make_shared<SelectiveBackprop>(options, std::move(draws));
       }},
      {"SeqLengthWarmup",
       [](const CaseOptions& set, const std::shared_ptr<Draws>&) {
         SeqLengthWarmupOptions options;
         set("duration", options.duration);
         set("min_seq_length", options.min_seq_length);
         set("max_seq_length", options.max_seq_length);
         set("step_size", options.step_size);
         set("truncate", options.truncate);
         set("preserve_end_of_sequence", options.preserve_end_of_sequence);
         return std::make_shared<SeqLengthWarmup>(options);
       }},
  };
  return all;
}

// The run of a case: the same network, optimizer and events as in write_algorithms.py.
class GoldenRun {
 public:
  explicit GoldenRun(const Value& golden_case) {
    state.model = classifier(net);
    load_state_dict(state.model->module(), golden_case.at("weights"));
    optimizer_ = std::make_shared<torch::optim::SGD>(parameters(state.model->module()),
                                                     torch::optim::SGDOptions(0.25).momentum(0.5));
    state.optimizer = optimizer_;
    state.max_duration = Time(golden_case.at("duration").as_str());
    state.dataloader_len = kBatchesPerEpoch;
    logger.add(logged);
    algorithm = makers().at(golden_case.at("name").as_str())(
        CaseOptions(golden_case.at("options")),
        std::make_shared<RecordedDraws>(golden_case.at("draws")));
    logged->init(state, logger);
    fire(Event::kInit);
  }

  // Compares everything with `step`.
  void batch(const Value& step) {
    state.batch = batch_in(step.at("batch"));
    fire(Event::kAfterDataloader);
    const Batch loaded = batch_in(step.at("loaded"));
    ASSERT_EQ(state.batch.size(), loaded.size());
    for (std::size_t i = 0; i < loaded.size(); ++i)
      EXPECT_TRUE(state.batch[i].equal(loaded[i])) << "tensor " << i << " of the batch";
    if (!state.batch.is_named()) train(step);
    state.timestamp = state.timestamp.to_next_batch(4, 0, {});
    fire(Event::kBatchEnd);
    if (state.timestamp.batch_in_epoch == kBatchesPerEpoch) {
      state.timestamp = state.timestamp.to_next_epoch();
      fire(Event::kEpochEnd);
    }
    EXPECT_TRUE(torch::allclose(weights(), tensor_in(step.at("weights")), 1e-4, 1e-6));
    EXPECT_NEAR(learning_rates(*state.optimizer)[0], step.at("lr").as_float(), 1e-12);
    for (const auto& [name, value] : step.at("metrics").as_dict()) {
      EXPECT_DOUBLE_EQ(logged->most_recent_value(name.as_str()).as_float(), value.as_float())
          << name.as_str();
    }
  }

  at::Tensor weights() const {
    std::vector<at::Tensor> all;
    for (const at::Tensor& parameter : parameters(state.model->module()))
      all.push_back(parameter.detach().flatten());
    return torch::cat(all);
  }

  torch::nn::Sequential net{
      torch::nn::Conv2d(1, 3, 3), torch::nn::BatchNorm2d(3),       torch::nn::ReLU(),
      torch::nn::Conv2d(3, 3, 2), torch::nn::AdaptiveAvgPool2d(1), torch::nn::Flatten(),
      torch::nn::Linear(3, 5),    torch::nn::Linear(5, 4)};
  State state = {};
  Logger logger{state};
  std::shared_ptr<InMemoryLogger> logged = std::make_shared<InMemoryLogger>();
  std::shared_ptr<Algorithm> algorithm;

 private:
  void fire(Event event) {
    if (algorithm->match(event, state)) algorithm->apply(event, state, logger);
  }

  void train(const Value& step) {
    const Batch whole = state.batch;
    fire(Event::kBeforeForward);
    EXPECT_TRUE(state.batch[0].equal(tensor_in(step.at("input"))));
    state.outputs = state.model->forward(state.batch);
    fire(Event::kBeforeLoss);
    state.loss = state.model->loss(state.outputs, state.batch).single();
    EXPECT_TRUE(state.batch[1].equal(tensor_in(step.at("target"))));
    fire(Event::kAfterLoss);
    fire(Event::kBeforeBackward);
    EXPECT_TRUE(torch::allclose(state.loss, tensor_in(step.at("loss")), 1e-5, 1e-6));
    backward(state.loss);
    auto* const repeater = dynamic_cast<BatchRepeater*>(algorithm.get());
    if (repeater != nullptr && repeater->begin_repeat(state)) {
      backward(state.model->loss(state.model->forward(whole), whole).single());
      repeater->end_repeat(state);
    }
    optimizer_->step();
  }

  void backward(const at::Tensor& loss) {
    for (at::Tensor& parameter : parameters(state.model->module()))
      parameter.mutable_grad().reset();
    loss.backward();
  }

  std::shared_ptr<torch::optim::SGD> optimizer_;
};

class ComposerAlgorithms : public TestWithParam<std::string> {
 protected:
  // Calls use(case) for all cases of the algorithm.
  static void for_each_case(const std::function<void(const Value&)>& use) {
    int found = 0;
    for (const Value& each : golden().at("cases").as_items()) {
      if (each.at("name").as_str() != GetParam()) continue;
      SCOPED_TRACE("case " + std::to_string(found++));
      use(each);
    }
    EXPECT_GE(found, 2);
  }
};

TEST_P(ComposerAlgorithms, EveryStepIsComposers) {
  for_each_case([](const Value& each) {
    GoldenRun run(each);
    int batch = 0;
    for (const Value& step : each.at("steps").as_items()) {
      SCOPED_TRACE("batch " + std::to_string(batch++));
      run.batch(step);
    }
    EXPECT_GT(batch, 0) << "the case has no steps to compare";
  });
}

// Python's repr of these classes is an address.
TEST_P(ComposerAlgorithms, StateHasComposersKeysAndIsReadFromComposer) {
  for_each_case([](const Value& each) {
    GoldenRun run(each);
    for (const Value& step : each.at("steps").as_items())
      run.batch(step);
    const Value own = run.algorithm->state_dict();
    const Value& composers = each.at("state_dict");
    for (const auto& [key, value] : composers.as_dict())
      EXPECT_EQ(own.at(key.as_str()).type_name(), value.type_name()) << key.as_str();
    run.algorithm->load_state_dict(composers, run.state);
  });
}

INSTANTIATE_TEST_SUITE_P(All, ComposerAlgorithms,
                         ::testing::Values("MixUp", "CutMix", "CutOut", "SWA", "LayerFreezing",
                                           "ProgressiveResizing", "SAM", "SelectiveBackprop",
                                           "SeqLengthWarmup"),
                         [](const auto& test) { return test.param; });

TEST(ComposerSwa, StateHasComposersEntriesAndLoadsThem) {
  for (const Value& each : golden().at("cases").as_items()) {
    if (each.at("name").as_str() != "SWA") continue;
    GoldenRun run(each);
    GoldenRun fresh(each);
    for (const Value& step : each.at("steps").as_items())
      run.batch(step);
    const Value own = run.algorithm->state_dict();
    const Value& composers = each.at("state_dict");
    fresh.algorithm->load_state_dict(composers, fresh.state);
    const Value loaded = fresh.algorithm->state_dict();
    std::vector<std::string> names;
    for (const auto& [name, tensor] : composers.at("swa_model").as_dict()) {
      names.push_back(name.as_str());
      const at::Tensor expected = tensor_in(tensor);
      EXPECT_TRUE(tensor_in(loaded.at("swa_model").at(names.back())).equal(expected))
          << names.back();
      // PyTorch 1.13 does not copy buffers, as newer ones do.
      if (name.as_str().find("running") != std::string::npos) continue;
      if (name.as_str().find("num_batches") != std::string::npos) continue;
      const at::Tensor found = tensor_in(own.at("swa_model").at(names.back()));
      EXPECT_EQ(found.scalar_type(), expected.scalar_type());
      EXPECT_TRUE(torch::allclose(found, expected, 1e-4, 1e-6)) << names.back();
    }
    std::vector<std::string> own_names;
    for (const auto& [name, tensor] : own.at("swa_model").as_dict())
      own_names.push_back(name.as_str());
    EXPECT_EQ(own_names, names);
    for (const char* key : {"swa_completed", "swa_started", "step_counter"}) {
      EXPECT_EQ(own.at(key), composers.at(key)) << key;
      EXPECT_EQ(loaded.at(key), composers.at(key)) << key;
    }
    if (composers.at("swa_scheduler").is_none()) continue;
    for (const char* key : {"anneal_epochs", "last_epoch", "_step_count", "base_lrs"})
      EXPECT_EQ(own.at("swa_scheduler").at(key), composers.at("swa_scheduler").at(key)) << key;
  }
}

// --- The functions -------------------------------------------------------------------------------

std::vector<Value> functions_named(const std::string& name) {
  std::vector<Value> found;
  for (const Value& each : golden().at("functions").as_items()) {
    if (each.at("name").as_str() == name) found.push_back(each);
  }
  EXPECT_FALSE(found.empty()) << name;
  return found;
}

std::shared_ptr<Draws> draws_in(const Value& function) {
  return std::make_shared<RecordedDraws>(function.at("draws"));
}

std::optional<at::Tensor> indices_in(const Value& options) {
  const Value* indices = options.find("indices");
  return indices == nullptr ? std::nullopt : std::optional(tensor_in(*indices));
}

TEST(ComposerFunctions, MixUpBatch) {
  for (const Value& each : functions_named("mixup_batch")) {
    const CaseOptions set(each.at("options"));
    MixUpBatchOptions options;
    set("mixing", options.mixing);
    set("alpha", options.alpha);
    options.indices = indices_in(each.at("options"));
    const List& arguments = each.at("arguments").as_items();
    const MixedBatch mixed =
        mixup_batch(tensor_in(arguments[0]), tensor_in(arguments[1]), options, draws_in(each));
    const List& expected = each.at("result").as_items();
    EXPECT_TRUE(mixed.input.equal(tensor_in(expected[0])));
    EXPECT_TRUE(mixed.permuted_target.equal(tensor_in(expected[1])));
    EXPECT_EQ(mixed.mixing, expected[2].as_float());
  }
}

TEST(ComposerFunctions, CutMixBatch) {
  for (const Value& each : functions_named("cutmix_batch")) {
    const CaseOptions set(each.at("options"));
    CutMixBatchOptions options;
    set("length", options.length);
    set("uniform_sampling", options.uniform_sampling);
    const auto box_in = [](const Value& value) {
      const List& sides = value.as_items();
      return CutMixBox{sides[0].as_int(), sides[1].as_int(), sides[2].as_int(), sides[3].as_int()};
    };
    if (const Value* box = each.at("options").find("bbox")) options.bbox = box_in(*box);
    const List& arguments = each.at("arguments").as_items();
    const CutMixed mixed =
        cutmix_batch(tensor_in(arguments[0]), tensor_in(arguments[1]), options, draws_in(each));
    const List& expected = each.at("result").as_items();
    EXPECT_TRUE(mixed.input.equal(tensor_in(expected[0])));
    EXPECT_TRUE(mixed.permuted_target.equal(tensor_in(expected[1])));
    EXPECT_EQ(mixed.adjusted_lambda, expected[2].as_float());
    EXPECT_EQ(mixed.bbox, box_in(expected[3]));
  }
}

TEST(ComposerFunctions, CutOutBatch) {
  for (const Value& each : functions_named("cutout_batch")) {
    const at::Tensor images = tensor_in(each.at("arguments").as_items()[0]);
    const at::Tensor cut = cutout_batch(images, {.num_holes = 2, .length = 0.3}, draws_in(each));
    EXPECT_TRUE(cut.equal(tensor_in(each.at("result"))));
    EXPECT_FALSE(cut.equal(images));
  }
}

TEST(ComposerFunctions, ResizeBatch) {
  for (const Value& each : functions_named("resize_batch")) {
    const CaseOptions set(each.at("options"));
    ResizeBatchOptions options;
    set("scale_factor", options.scale_factor);
    set("mode", options.mode);
    set("resize_targets", options.resize_targets);
    const List& arguments = each.at("arguments").as_items();
    const ResizedBatch resized =
        resize_batch(tensor_in(arguments[0]), tensor_in(arguments[1]), options, draws_in(each));
    EXPECT_TRUE(resized.input.equal(tensor_in(each.at("result").as_items()[0])));
    EXPECT_TRUE(resized.target.equal(tensor_in(each.at("result").as_items()[1])));
  }
}

TEST(ComposerFunctions, SetBatchSequenceLength) {
  for (const Value& each : functions_named("set_batch_sequence_length")) {
    const CaseOptions set(each.at("options"));
    SequenceLengthOptions options;
    set("truncate", options.truncate);
    set("preserve_end_of_sequence", options.preserve_end_of_sequence);
    const List& arguments = each.at("arguments").as_items();
    const Batch batch =
        set_batch_sequence_length(batch_in(arguments[0]), arguments[1].as_int(), options);
    const Batch expected = batch_in(each.at("result"));
    for (const std::string& name : expected.names())
      EXPECT_TRUE(batch[name].equal(expected[name])) << name;
  }
}

TEST(ComposerFunctions, ShouldSelectiveBackprop) {
  for (const Value& each : functions_named("should_selective_backprop")) {
    const List& arguments = each.at("arguments").as_items();
    EXPECT_EQ(should_selective_backprop(arguments[0].as_float(), arguments[1].as_int(),
                                        {.interrupt = each.at("options").at("interrupt").as_int()}),
              each.at("result").as_bool());
  }
}

}  // namespace
}  // namespace cairn
