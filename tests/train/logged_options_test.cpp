// predict() without outputs, and options that only change what a Trainer logs.

#include <gmock/gmock.h>

#include <map>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"
#include "cairn/optim/optimizers.h"
#include "cairn/train/trainer.h"

#include "checkpoint/open/run_options.h"
#include "testing/message_of.h"
#include "testing/temp_folder.h"
#include "testing/tiny_model.h"

namespace cairn {
namespace {

using testing::CallAt;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::LogRecorder;
using testing::message_of;
using ::testing::Not;
using ::testing::StartsWith;
using testing::tiny_loader;
using testing::tiny_options;

// --- predict() -----------------------------------------------------------------------------------

TEST(PredictWithoutOutputs, GivesThemToTheEventOnly) {
  std::vector<std::int64_t> batches;
  std::vector<std::int64_t> samples;
  TrainerOptions made = tiny_options();
  made.callbacks = {CallAt(Event::kPredictBatchEnd, [&](State& state) {
    batches.push_back(state.predict_timestamp.batch);
    samples.push_back(state.predict_timestamp.sample);
    EXPECT_TRUE(state.outputs.single().defined());
  })};
  Trainer trainer(std::move(made));
  EXPECT_THAT(trainer.predict(tiny_loader(5), std::nullopt, /*return_outputs=*/false), IsEmpty());
  EXPECT_THAT(batches, ElementsAre(1, 2, 3));
  EXPECT_THAT(samples, ElementsAre(2, 4, 5));
  EXPECT_EQ(trainer.predict(tiny_loader(5), 1).size(), 1U);
  EXPECT_EQ(trainer.state().predict_timestamp.batch, 1) << "from zero";
  EXPECT_EQ(trainer.state().timestamp.batch, 0);
}

// --- What is logged ------------------------------------------------------------------------------

std::vector<std::string> messages_with(const Word<LogLevel>& level) {
  auto log = std::make_shared<LogRecorder>();
  TrainerOptions made = tiny_options();
  made.optimizers = {};  // A warning.
  made.loggers = {log};
  made.log_level = level;
  Trainer(std::move(made)).fit();
  return log->messages;
}

TEST(LogLevelTest, LeavesOutLinesBelowIt) {
  EXPECT_THAT(messages_with("info"), Contains(StartsWith("time: ")));
  EXPECT_THAT(messages_with("info"), Contains(StartsWith("warning: no optimizer")));
  EXPECT_THAT(messages_with("warning"), Contains(StartsWith("warning: no optimizer")));
  EXPECT_THAT(messages_with("warning"), Each(StartsWith("warning: ")));
  EXPECT_THAT(messages_with("error"), IsEmpty());
  EXPECT_THAT(message_of<UsageError>([] { messages_with("DEBUG"); }),
              HasSubstr("give info, warning or error"));
}

TEST(AutoLogHparams, LogsTheOptionsAndTheOptimizers) {
  auto log = std::make_shared<LogRecorder>();
  TrainerOptions made = tiny_options();
  made.optimizers = AdamW({.lr = 0.25});
  made.max_duration = "2ba";
  made.loggers = {log};
  {
    const Trainer plain(made);
    EXPECT_EQ(log->hyperparameters.find("max_duration"), nullptr);
  }
  made.model = tiny_options().model;
  made.auto_log_hparams = true;
  const Trainer trainer(std::move(made));
  EXPECT_EQ(log->hyperparameters.at("max_duration").as_str(), "2ba");
  EXPECT_EQ(log->hyperparameters.at("the optimizer's group 0: lr").as_str(), "0.25");
}

// Also when the options are not logged, and when a loaded checkpoint has other rates.
TEST(OptionsInCheckpoints, AreThoseOfTheStartThatSaved) {
  const testing::TempFolder folder;
  const auto train = [&](const char* max_duration, double rate) {
    TrainerOptions made = tiny_options();
    made.optimizers = AdamW({.lr = rate});
    made.run_name = "run";
    made.max_duration = max_duration;
    made.save_folder = folder / "{run_name}";
    made.autoresume = true;
    Trainer(std::move(made)).fit();
    const auto options = run_options(load(find_latest(folder / "run").value().checkpoint));
    return std::map<std::string, std::string>(options.begin(), options.end());
  };
  auto options = train("1ep", 0.25);
  EXPECT_EQ(options["max_duration"], "1ep");
  EXPECT_EQ(options["the optimizer's group 0: lr"], "0.25");
  EXPECT_EQ(options["save_folder"], "given");  // a place may have secrets in it
  for (const auto& [name, text] : options)
    EXPECT_THAT(name, Not(HasSubstr("the model's")));
  options = train("2ep", 0.5);
  EXPECT_EQ(options["max_duration"], "2ep");
  EXPECT_EQ(options["the optimizer's group 0: lr"], "0.5");
}

}  // namespace
}  // namespace cairn
