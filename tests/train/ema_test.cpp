#include "cairn/algorithms/ema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "cairn/callbacks/checkpoint_saver.h"
#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"
#include "cairn/train/logger.h"
#include "cairn/train/state.h"
#include "cairn/train/state_dict.h"

#include "testing/temp_folder.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Saver final : Callback {
  bool will_save(Event event, const State& /*state*/) override {
    return saves && event == Event::kBatchCheckpoint;
  }
  bool saves = false;
};

// One weight, one counter, and a run of 10 batches. The test sets the weight.
struct Net : torch::nn::Module {
  at::Tensor weight = register_parameter("weight", torch::zeros({1}));
  at::Tensor frozen = register_parameter("frozen", torch::zeros({1}), /*requires_grad=*/false);
  at::Tensor counter = register_buffer("counter", torch::zeros({}, at::kLong));
  static at::Tensor forward(const at::Tensor& input) { return input; }
};

struct EmaRun {
  explicit EmaRun(EMAOptions options) : ema(options) {
    state.model = classifier(net);
    state.max_duration = "10ba";
    state.callbacks = {saver};
    fire(Event::kInit);
  }

  void fire(Event event) {
    if (ema.match(event, state)) ema.apply(event, state, logger);
  }

  // Runs a batch after which the weight is `value`.
  void batch(double value) {
    fire(Event::kBatchStart);
    {
      const torch::NoGradGuard no_grad;
      net->weight.fill_(value);
      net->frozen.fill_(value);
      net->counter.add_(1);
    }
    state.previous_timestamp = state.timestamp;
    state.timestamp = state.timestamp.to_next_batch(1, 0, {});
    fire(Event::kBatchEnd);
  }

  double weight() const { return net->weight.item<double>(); }

  std::shared_ptr<Net> net = std::make_shared<Net>();
  std::shared_ptr<Saver> saver = std::make_shared<Saver>();
  State state;
  Logger logger{state};
  EMA ema;
};

double saved_weight(const Value& state) {
  const Value& tensor = state.at("ema_model").at("named_parameters_dict").at("module.weight");
  return tensor_of(tensor.as_tensor()).item<double>();
}

TEST(EMATest, AveragesWithTheHalfLifeAndShowsTheAverageDuringEvaluation) {
  EmaRun run({.half_life = "1ba"});  // Smoothing 1/2.
  run.batch(4);                      // The average starts with 4.
  run.batch(8);
  run.batch(2);
  EXPECT_EQ(run.weight(), 2);
  run.fire(Event::kEvalStart);
  EXPECT_EQ(run.weight(), 4);  // ((4 + 4) / 2 + 8) / 2 = 6, (6 + 2) / 2 = 4
  run.fire(Event::kEvalEnd);
  EXPECT_EQ(run.weight(), 2);
}

TEST(EMATest, HalfLifeAndIntervalGiveTheSmoothing) {
  EmaRun run({.half_life = "4ba", .update_interval = "2ba"});
  // Batch 1 is no multiple of the interval: the average has started, but is not updated.
  run.batch(1);
  run.batch(3);
  run.fire(Event::kEvalStart);
  const double smoothing = std::exp2(-0.5);
  EXPECT_NEAR(run.weight(), smoothing * 1 + (1 - smoothing) * 3, 1e-6);
}

TEST(EMATest, CountersAreAveragedAsFloatsAndTruncated) {
  EmaRun run({.half_life = "1ba"});
  run.batch(0);  // 1, average 1.
  run.batch(0);  // 2, average 1.5.
  run.fire(Event::kEvalStart);
  EXPECT_EQ(run.net->counter.item<std::int64_t>(), 1);
}

TEST(EMATest, LeavesFrozenParametersAlone) {
  EmaRun run({.half_life = "1ba"});
  run.batch(4);
  run.batch(8);
  run.fire(Event::kEvalStart);
  EXPECT_EQ(run.net->frozen.item<double>(), 8);
  const Value parameters = run.ema.state_dict().at("ema_model").at("named_parameters_dict");
  EXPECT_EQ(parameters.find("module.frozen"), nullptr);
}

TEST(EMATest, StartsAtEmaStart) {
  EmaRun run({.half_life = "1ba", .ema_start = "0.2dur"});
  run.batch(4);
  run.fire(Event::kEvalStart);
  EXPECT_EQ(run.weight(), 4);  // The average has not started, so there is none to show.
  EXPECT_FALSE(run.ema.state_dict().at("ema_started").as_bool());
  run.batch(8);
  run.fire(Event::kEvalStart);
  EXPECT_EQ(run.weight(), 8);  // The average starts with the current weights.
  EXPECT_TRUE(run.ema.state_dict().at("ema_started").as_bool());
}

TEST(EMATest, UpdatesOncePerEpochWhenAskedTo) {
  EmaRun run({.half_life = "1ep"});
  run.batch(4);
  EXPECT_FALSE(run.ema.state_dict().at("ema_started").as_bool());
  run.state.timestamp = run.state.timestamp.to_next_epoch();
  run.fire(Event::kEpochEnd);
  EXPECT_EQ(saved_weight(run.ema.state_dict()), 4);
}

TEST(EMATest, ModelHoldsTheAverageFromACheckpointUntilTheNextBatch) {
  EmaRun run({.half_life = "1ba"});
  run.batch(4);
  run.batch(8);
  run.saver->saves = true;
  run.fire(Event::kBatchCheckpoint);
  EXPECT_EQ(run.weight(), 6);
  EXPECT_EQ(saved_weight(run.ema.state_dict()), 8);
  EXPECT_TRUE(run.ema.state_dict().at("ema_weights_active").as_bool());
  run.fire(Event::kBatchStart);
  EXPECT_EQ(run.weight(), 8);
  EXPECT_FALSE(run.ema.state_dict().at("ema_weights_active").as_bool());
}

TEST(EMATest, CheckpointEventsAtWhichNobodySavesChangeNothing) {
  EmaRun run({.half_life = "1ba"});
  run.batch(4);
  run.batch(8);
  run.fire(Event::kBatchCheckpoint);
  run.saver->saves = true;
  run.fire(Event::kEpochCheckpoint);
  EXPECT_EQ(run.weight(), 8);
}

TEST(EMATest, CheckpointSaverWritesTheAverageAndAsksItsIntervalOnce) {
  const testing::TempFolder folder;
  int asked = 0;
  const auto saver = std::make_shared<CheckpointSaver>(CheckpointSaverOptions{
      .folder = folder.path(),
      .save_interval = [&asked](const State& /*state*/, Event /*event*/) { return ++asked > 0; },
      .save_async = false});
  EmaRun run({.half_life = "1ba"});
  run.state.callbacks = {saver};
  saver->init(run.state, run.logger);
  run.batch(4);
  run.batch(8);
  run.fire(Event::kBatchCheckpoint);
  saver->batch_checkpoint(run.state, run.logger);
  EXPECT_EQ(asked, 1);
  ASSERT_EQ(saver->saved_checkpoints().size(), 1U);
  const Value saved = load(saver->saved_checkpoints()[0]).at("state");
  EXPECT_EQ(tensor_of(saved.at("model").at("module.weight").as_tensor()).item<double>(), 6);
  run.fire(Event::kEpochCheckpoint);  // This batch was saved already.
  saver->epoch_checkpoint(run.state, run.logger);
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(saver->saved_checkpoints().size(), 1U);
}

// Composer would average the average here, because a checkpoint of the epoch's last batch was just
// saved.
TEST(EMATest, AveragesTrainingWeightsAlsoRightAfterACheckpoint) {
  EmaRun run({.half_life = "1ep"});
  run.batch(4);
  run.state.timestamp = run.state.timestamp.to_next_epoch();
  run.fire(Event::kEpochEnd);
  run.batch(8);
  run.saver->saves = true;
  run.fire(Event::kBatchCheckpoint);
  EXPECT_EQ(run.weight(), 4);
  run.state.timestamp = run.state.timestamp.to_next_epoch();
  run.fire(Event::kEpochEnd);
  EXPECT_EQ(run.weight(), 8);
  EXPECT_EQ(saved_weight(run.ema.state_dict()), 6);
}

// T69: a stateful model-averaging algorithm survives the round trip.
TEST(EMATest, ContinuesFromASavedState) {
  EmaRun straight({.half_life = "1ba"});
  straight.batch(4);
  straight.batch(8);
  straight.saver->saves = true;
  straight.fire(Event::kBatchCheckpoint);
  EmaRun resumed({.half_life = "1ba"});
  resumed.state.timestamp = straight.state.timestamp;
  load_state_dict(resumed.state.model->module(), state_dict(straight.state.model->module()));
  resumed.ema.load_state_dict(straight.ema.state_dict(), resumed.state);
  EXPECT_EQ(resumed.ema.state_dict(), straight.ema.state_dict());
  for (EmaRun* run : {&straight, &resumed}) {
    run->fire(Event::kBatchStart);
    EXPECT_EQ(run->weight(), 8);
    run->batch(2);
  }
  EXPECT_EQ(saved_weight(resumed.ema.state_dict()), 4);
  EXPECT_EQ(resumed.ema.state_dict(), straight.ema.state_dict());
}

TEST(EMATest, StateHasComposersLayout) {
  const EmaRun run({.half_life = "4ba", .update_interval = "1ba"});
  const Value state = run.ema.state_dict();
  std::vector<std::string> keys;
  for (const auto& [key, value] : state.as_dict()) {
    keys.push_back(key.as_str());
  }
  EXPECT_THAT(keys,
              ::testing::ElementsAre("repr", "ema_model", "ema_weights_active", "ema_started"));
  EXPECT_EQ(state.at("repr").as_str(),
            "EMA(half_life='4ba',smoothing=None,ema_start='0.0dur',update_interval='1ba')");
  EXPECT_NE(state.at("ema_model").at("named_buffers_dict").find("module.counter"), nullptr);
}

TEST(EMATest, RefusesAStateOfAnotherModelAndKeepsItsOwn) {
  EmaRun run({.half_life = "1ba"});
  run.batch(4);
  const Value before = run.ema.state_dict();
  Value other = before;
  Dict& model = other.mutable_dict()["ema_model"].mutable_dict();
  Dict& parameters = model["named_parameters_dict"].mutable_dict();
  parameters.erase("module.weight");
  parameters.set("head.weight", view_of(torch::zeros({1})));
  model["named_buffers_dict"].mutable_dict().set("module.counter", view_of(torch::zeros({2})));
  other.mutable_dict().set("ema_started", 1);
  try {
    run.ema.load_state_dict(other, run.state);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const MismatchError& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("no tensor \"module.weight\""),
                                HasSubstr("\"head.weight\", which the model does not have"),
                                HasSubstr("\"module.counter\" has another shape"),
                                HasSubstr("\"ema_started\" is not a bool")));
  }
  EXPECT_THROW(run.ema.load_state_dict(Dict(), run.state), MismatchError);
  EXPECT_EQ(run.ema.state_dict(), before);
}

// --- States of older Composers -------------------------------------------------------------------

Value tensor_value(double number) { return view_of(torch::full({1}, number)); }

// Composer 0.7 to 0.10.0 saved lists of all parameters and buffers. The model here has two
// parameters, one of which is frozen.
TEST(EMATest, ReadsTheListsOfComposer07) {
  const auto lists = [](double weight) {
    return Dict{{"parameters", List{tensor_value(weight), tensor_value(5)}},
                {"buffers", List{view_of(torch::scalar_tensor(3, at::kLong))}}};
  };
  EmaRun run({.half_life = "1ba"});
  run.ema.load_state_dict(Dict{{"ema_model", lists(6)}, {"training_model", lists(8)}}, run.state);
  EXPECT_EQ(saved_weight(run.ema.state_dict()), 6);
  EXPECT_FALSE(run.ema.state_dict().at("ema_weights_active").as_bool());
  run.batch(2);
  EXPECT_EQ(saved_weight(run.ema.state_dict()), 4);

  Value other = Dict{{"ema_model", lists(6)}, {"training_model", lists(8)}};
  other.mutable_dict()["ema_model"].mutable_dict().set("parameters", List{tensor_value(1)});
  try {
    run.ema.load_state_dict(other, run.state);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const MismatchError& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("Composer 0.7 to 0.10.0"),
                                HasSubstr("expected 2 as in this model, found 1")));
  }
  EXPECT_EQ(saved_weight(run.ema.state_dict()), 4);
}

// Composer 0.10.1 to 0.12 saved two whole state_dicts. EMA keeps the state_dict whose weights are
// not in the model.
TEST(EMATest, ReadsTheModelsOfComposer0101) {
  const auto weights = [](double weight) {
    return Dict{{"module.weight", tensor_value(weight)},
                {"module.frozen", tensor_value(5)},
                {"module.counter", view_of(torch::scalar_tensor(3, at::kLong))}};
  };
  for (const bool active : {true, false}) {
    EmaRun run({.half_life = "1ba"});
    run.ema.load_state_dict(Dict{{"repr", "<EMA>"},
                                 {"ema_model", weights(6)},
                                 {"training_model", weights(8)},
                                 {"ema_weights_active", active},
                                 {"ema_started", true}},
                            run.state);
    EXPECT_EQ(saved_weight(run.ema.state_dict()), active ? 8 : 6);
    EXPECT_EQ(run.ema.state_dict().at("ema_weights_active").as_bool(), active);
  }
}

TEST(EMATest, RefusesOptionsThatCannotBe) {
  EXPECT_THROW(EMA({.half_life = "1ba", .smoothing = 0.5}), UsageError);
  EXPECT_THROW(EMA({.half_life = std::nullopt}), UsageError);
  EXPECT_THROW(EMA({.half_life = std::nullopt, .smoothing = 1.0}), UsageError);
  EXPECT_THROW(EMA({.half_life = "1ba", .update_interval = "1ep"}), UsageError);
  EXPECT_THROW(EMA({.half_life = "10sp"}), UsageError);
  EXPECT_THROW(EMA({.half_life = "1ba", .update_interval = "0ba"}), UsageError);
}

}  // namespace
}  // namespace cairn
