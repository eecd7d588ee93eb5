// LoadCheckpoint and FreeOutputs.

#include "cairn/callbacks/load_checkpoint.h"

#include <gmock/gmock.h>

#include "cairn/callbacks/free_outputs.h"
#include "cairn/error.h"
#include "cairn/optim/optimizers.h"
#include "cairn/train/state_dict.h"
#include "cairn/train/trainer.h"

#include "testing/message_of.h"
#include "testing/temp_folder.h"
#include "testing/tiny_model.h"

namespace cairn {
namespace {

using testing::CallAt;
using ::testing::Contains;
using ::testing::HasSubstr;
using testing::LogRecorder;
using testing::message_of;
using testing::TempFolder;
using testing::tiny_options;
using testing::weights_of;

struct LoadCheckpointTest : ::testing::Test {
  static TrainerOptions run_of(std::uint64_t seed) {
    TrainerOptions made = tiny_options({.seed = seed});
    made.optimizers = AdamW({.lr = 0.01});
    made.max_duration = "3ba";
    made.run_name = "run";
    made.loggers = {std::make_shared<LogRecorder>()};
    return made;
  }
  // The weights of a run that was saved.
  Value saved_weights(bool weights_only = false) {
    Trainer trainer(run_of(1));
    trainer.fit();
    trainer.save_checkpoint(folder / "run.pt", weights_only);
    return load(folder / "run.pt").at("state").at("model");
  }
  static Value weights_in(Trainer& trainer) { return state_dict(trainer.state().model->module()); }
  TempFolder folder;
};

TEST_F(LoadCheckpointTest, LoadsWeightsBeforeTheTrainerLoads) {
  const Value weights = saved_weights(/*weights_only=*/true);
  TrainerOptions made = run_of(2);
  const auto log = std::make_shared<LogRecorder>();
  made.loggers = {log};
  made.callbacks =
      LoadCheckpoint({.load_path = folder.path() + "/{run_name}.pt", .load_weights_only = true});
  Trainer trainer(std::move(made));
  EXPECT_EQ(weights_in(trainer), weights);
  EXPECT_EQ(trainer.state().timestamp.batch, 0);
  EXPECT_THAT(log->messages, Contains(HasSubstr("LoadCheckpoint: loaded " + folder.path())));
}

TEST_F(LoadCheckpointTest, LoadsAWholeRunAndGoesOnWithIt) {
  const Value weights = saved_weights();
  TrainerOptions made = run_of(2);
  made.max_duration = "4ba";
  made.callbacks = LoadCheckpoint({.load_path = folder / "run.pt"});
  Trainer trainer(std::move(made));
  EXPECT_EQ(weights_in(trainer), weights);
  EXPECT_EQ(trainer.state().timestamp.batch, 3);
  trainer.fit();
  EXPECT_EQ(trainer.state().timestamp.batch, 4);
}

TEST_F(LoadCheckpointTest, TheTrainersOwnLoadWins) {
  saved_weights();
  Trainer other(run_of(5));
  const std::string own = other.save_checkpoint(folder / "own.pt");
  TrainerOptions made = run_of(2);
  made.load_path = own;
  made.callbacks = LoadCheckpoint({.load_path = folder / "run.pt", .load_weights_only = true});
  Trainer trainer(std::move(made));
  EXPECT_EQ(weights_in(trainer), weights_in(other));
}

TEST_F(LoadCheckpointTest, LoadsWeightsAtALaterEvent) {
  const Value weights = saved_weights();
  TrainerOptions made = run_of(2);
  made.callbacks = LoadCheckpoint(
      {.load_path = folder / "run.pt", .load_weights_only = true, .event = Event::kFitEnd});
  Trainer trainer(std::move(made));
  trainer.fit();
  EXPECT_EQ(weights_in(trainer), weights);
  EXPECT_EQ(trainer.state().timestamp.batch, 3);
}

TEST_F(LoadCheckpointTest, KeysMayBeLeftOut) {
  const Value weights = saved_weights();
  TrainerOptions made = run_of(2);
  Trainer fresh(run_of(2));
  made.callbacks = LoadCheckpoint({.load_path = folder / "run.pt",
                                   .load_weights_only = true,
                                   .strict_model_weights = false,
                                   .ignore_keys = {"state/model/first*"}});
  Trainer trainer(std::move(made));
  EXPECT_EQ(weights_in(trainer).at("second.weight"), weights.at("second.weight"));
  EXPECT_EQ(weights_in(trainer).at("first.weight"), weights_in(fresh).at("first.weight"));
}

TEST_F(LoadCheckpointTest, RefusesWhatCannotBe) {
  EXPECT_THROW(LoadCheckpoint({.load_weights_only = true}), UsageError);
  EXPECT_THAT(message_of<UsageError>(
                  [] { LoadCheckpoint({.load_path = "x.pt", .event = Event::kFitStart}); }),
              HasSubstr("at the event fit_start"));
  TrainerOptions made = run_of(2);
  made.callbacks = LoadCheckpoint({.load_path = folder / "missing.pt"});
  EXPECT_THROW(Trainer(std::move(made)), NotFoundError);
}

// --- FreeOutputs ---------------------------------------------------------------------------------

TEST(FreeOutputsTest, OutputsAreGoneAfterTheLossAndTheTrainingIsTheSame) {
  const auto trained = [](HandleList<Callback> callbacks) {
    TrainerOptions made = tiny_options();
    made.max_duration = "3ba";
    made.callbacks = std::move(callbacks);
    Trainer trainer(std::move(made));
    trainer.fit();
    return weights_of(*trainer.state().model).clone();
  };
  int seen = 0;
  const at::Tensor freed =
      trained({FreeOutputs(), CallAt(Event::kBeforeBackward, [&seen](State& state) {
                 seen += state.outputs.empty() ? 1 : 100;
               })});
  EXPECT_EQ(seen, 3);
  EXPECT_TRUE(at::equal(freed, trained({})));
}

TEST(FreeOutputsTest, RefusesTrainingMetrics) {
  TrainerOptions made = tiny_options({.metrics = true});
  made.callbacks = FreeOutputs();
  Trainer trainer(std::move(made));
  EXPECT_THAT(message_of<UsageError>([&] { trainer.fit(); }), HasSubstr("\"MeanOutput\""));
}

}  // namespace
}  // namespace cairn
