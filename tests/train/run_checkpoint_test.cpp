// A load refuses files that are not a run's checkpoint, and names entries that it does not use.

#include <gmock/gmock.h>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"
#include "cairn/optim/optimizers.h"
#include "cairn/schedulers/schedulers.h"
#include "cairn/train/state_dict.h"
#include "cairn/train/trainer.h"

#include "testing/message_of.h"
#include "testing/temp_folder.h"
#include "testing/tiny_model.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using testing::LogRecorder;
using testing::message_of;
using ::testing::Not;
using testing::TempFolder;
using testing::tiny_options;

struct RunCheckpoint : ::testing::Test {
  static TrainerOptions options() {
    TrainerOptions made = tiny_options({.dropout = 0.2});
    made.optimizers = AdamW({.lr = 0.01});
    made.schedulers = LinearScheduler();
    made.max_duration = "3ba";
    made.run_name = "run";
    return made;
  }

  std::string saved(TrainerOptions made, bool weights_only = false) {
    Trainer trainer(std::move(made));
    trainer.fit();
    return trainer.save_checkpoint(folder / "saved.pt", weights_only);
  }

  void edit(const std::string& path, const std::function<void(Dict& state)>& change) {
    Value value = load(path);
    change(value.mutable_dict()["state"].mutable_dict());
    save(value, folder / "edited.pt");
  }

  // Saves a checkpoint and loads it: a deep copy of everything that a checkpoint holds now.
  static Value load_back(Trainer& trainer) {
    const TempFolder here;
    return load(trainer.save_checkpoint(here / "now.pt"));
  }

  TempFolder folder;
};

// Other files have a "state", too, for example an optimizer's state_dict().
TEST_F(RunCheckpoint, WhatHasNoModelIsNoCheckpointOfARun) {
  const Value run = load(saved(options()));
  Dict without_model = run.at("state").as_dict();
  without_model.erase("model");
  const std::vector<std::pair<Value, std::string>> files = {
      {Dict{{"state", Dict{{0, Dict{{"step", 3}}}}}, {"param_groups", List()}},
       "its \"state\" has no \"model\", it is the state_dict() of an optimizer"},
      {Dict{{"state", Dict()}}, "its \"state\" has no \"model\""},
      {Dict{{"state", without_model}, {"rng", run.at("rng")}}, "has no \"model\""},
      {Dict{{"state", Dict{{"optimizers", Dict()}}}}, "has no \"model\""},
      {Dict{{"state", List()}}, "its \"state\" is a list"},
      {Dict{{"last_epoch", 3}, {"base_lrs", List{0.1}}}, "it has no \"state\""},
      {List{1, 2}, "it has no \"state\""}};
  Trainer trainer(options());
  const Value before = load_back(trainer);
  for (const auto& [file, why] : files) {
    save(file, folder / "other.pt");
    for (const bool weights_only : {false, true}) {
      for (const bool with_keys : {false, true}) {
        LoadCheckpointOptions how{.load_weights_only = weights_only, .strict_model_weights = false};
        if (with_keys) how.ignore_keys = {"rng"};
        EXPECT_THAT(message_of<MismatchError>([&] {
                      load_checkpoint(folder / "other.pt", trainer.state(), trainer.logger(), how);
                    }),
                    AllOf(HasSubstr("other.pt"), HasSubstr("is not a checkpoint of a Trainer"),
                          HasSubstr(why), HasSubstr("load_state_dict()")));
        EXPECT_EQ(load_back(trainer), before);
      }
    }
  }
}

TEST_F(RunCheckpoint, AModelWithoutWeightsIsNoneThatFits) {
  edit(saved(options()), [](Dict& state) { state["model"] = Dict(); });
  Trainer trainer(options());
  const auto load_edited = [&] {
    load_checkpoint(folder / "edited.pt", trainer.state(), trainer.logger(),
                    {.strict_model_weights = false});
  };
  EXPECT_THAT(message_of<MismatchError>(load_edited),
              HasSubstr("none of its weights is in the checkpoint"));
}

// As in Composer, load_ignore_keys may be a function that changes the tree.
TEST_F(RunCheckpoint, AFunctionMayMakeACheckpointOfAnotherFile) {
  const Value weights = load(saved(options(), /*weights_only=*/true)).at("state").at("model");
  save(Dict{{"state_dict", weights}, {"epoch", 3}}, folder / "lightning.pt");
  Trainer trainer(options());
  const auto as_checkpoint = [](Value& root) {
    const Value model = root.at("state_dict");
    root = Dict{{"state", Dict{{"model", model}}}};
  };
  load_checkpoint(folder / "lightning.pt", trainer.state(), trainer.logger(),
                  {.load_weights_only = true, .ignore_keys = as_checkpoint});
  EXPECT_EQ(state_dict(trainer.state().model->module()), weights);
}

TEST_F(RunCheckpoint, WhatALoadLeavesAloneIsALine) {
  edit(saved(options()), [](Dict& state) {
    state["ema_model"] = Dict{{"w", 1}};
    state["callbacks"].mutable_dict()["Profiler"] = Dict{{"steps", 3}};
    state["callbacks"].mutable_dict()["Stateless"] = Dict();
    state["schedulers"].mutable_dict()["StepLR"] = Dict{{"last_epoch", 3}};
    const Value bias = state["model"].at("first.bias");
    state["model"].mutable_dict()["more"] = bias;
  });
  auto log = std::make_shared<LogRecorder>();
  TrainerOptions made = options();
  made.loggers = {log};
  made.load_path = folder / "edited.pt";
  made.load_strict_model_weights = false;
  const Trainer trainer(std::move(made));
  EXPECT_THAT(log->messages,
              Contains("the checkpoint also holds entries that this run does not use: "
                       "state/schedulers/StepLR, state/callbacks/Profiler, state/ema_model"));
  EXPECT_THAT(log->messages,
              Contains(HasSubstr("weights of the checkpoint that the model lacks (1): \"more\"")));
}

TEST_F(RunCheckpoint, ALoadOfAllThatIsThereSaysNothingMore) {
  auto log = std::make_shared<LogRecorder>();
  TrainerOptions made = options();
  made.load_path = saved(options());
  made.loggers = {log};
  const Trainer trainer(std::move(made));
  EXPECT_THAT(log->messages, Not(Contains(HasSubstr("warning"))));
  EXPECT_THAT(log->messages, Not(Contains(HasSubstr("holds more"))));
}

// The file has no timestamp and no random states, but is still not a weights-only file.
TEST_F(RunCheckpoint, AnOptimizerBesideTheWeightsIsLoaded) {
  const std::string path = saved(options());
  Value value = load(path);
  value.mutable_dict().erase("rng");
  value.mutable_dict()["state"].mutable_dict().erase("timestamp");
  save(value, folder / "edited.pt");
  Trainer trainer(options());
  load_checkpoint(folder / "edited.pt", trainer.state(), trainer.logger());
  EXPECT_EQ(load_back(trainer).at("state").at("optimizers"),
            load(path).at("state").at("optimizers"));
}

}  // namespace
}  // namespace cairn
