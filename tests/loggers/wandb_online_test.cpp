// WandBLogger online: what a strict fake of W&B's server has of a run that ends, one that is killed
// and resumed, and one whose server is away.

#include <gmock/gmock.h>

#include <thread>

#include "cairn/callbacks/lr_monitor.h"
#include "cairn/error.h"
#include "cairn/loggers/wandb_logger.h"
#include "cairn/train/trainer.h"

#include "core/text/json.h"
#include "testing/fake_trackers.h"
#include "testing/message_of.h"
#include "testing/temp_folder.h"
#include "testing/tiny_model.h"
#include "testing/trackers_environment.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using testing::CallAt;
using ::testing::Contains;
using ::testing::ElementsAre;
using testing::FakeTrackers;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::LogRecorder;
using testing::message_of;
using testing::TempFolder;
using testing::tiny_options;

struct WandbOnlineTest : ::testing::Test {
  WandbOnlineTest() {
    environment.set("WANDB_API_KEY", testing::FakeTrackersOptions().token);
    environment.set("NETRC", "/nonexistent/netrc");
  }

  WandBLoggerOptions online() const {
    return {.project = "digits",
            .entity = "team",
            .tags = {"small"},
            .id = "run1",
            .dir = folder.path(),
            .upload_timeout = timeout};
  }
  TrainerOptions options(const WandBLoggerOptions& logger) {
    TrainerOptions made = tiny_options();
    made.run_name = "night";
    made.max_duration = "8ba";
    made.save_folder = folder / "checkpoints";
    made.save_interval = "2ba";
    made.autoresume = true;
    made.loggers = {WandBLogger(logger), recorder};
    return made;
  }
  // Ends in the fifth batch.
  void train_until_killed(const WandBLoggerOptions& logger,
                          const std::function<void(Logger&)>& before = {}) {
    TrainerOptions dying = options(logger);
    int batches = 0;
    dying.callbacks = {std::make_shared<CallAt>(Event::kBatchEnd, [&batches](State&) {
      if (++batches == 5) throw std::runtime_error("killed");
    })};
    Trainer trainer(std::move(dying));
    if (before) before(trainer.logger());
    EXPECT_THROW(trainer.fit(), std::runtime_error);
  }
  void train(const WandBLoggerOptions& logger) {
    Trainer trainer(options(logger));
    trainer.fit();
    trainer.close();
  }

  testing::CleanTrackersEnvironment environment;
  TempFolder folder;
  std::shared_ptr<LogRecorder> recorder = std::make_shared<LogRecorder>();
  std::chrono::seconds timeout{60};
};

std::vector<double> column(const Json& run, const std::string& key) {
  std::vector<double> values;
  for (const Json& row : run["history"]) {
    if (row.contains(key)) values.push_back(row[key]);
  }
  return values;
}

TEST_F(WandbOnlineTest, AServerGetsTheRunWithItsConfigRowsAndSummary) {
  FakeTrackers server;
  environment.set("WANDB_BASE_URL", server.url());
  train(online());
  EXPECT_THAT(server.violations(), IsEmpty());
  const Json run = server.streamed_to("team/digits/run1");
  EXPECT_EQ(run["fields"]["displayName"], "night");
  EXPECT_THAT(run["fields"]["tags"], ElementsAre("small"));
  const Json config = Json::parse(std::string(run["fields"]["config"]));
  EXPECT_EQ(config["rank_zero_seed"]["value"], 3);
  EXPECT_THAT(column(run, "_step"), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_EQ(column(run, "loss/train/total"), recorder->values("loss/train/total"));
  EXPECT_EQ(run["summary"]["loss/train/total"], column(run, "loss/train/total").back());
  EXPECT_EQ(run["exitcode"], 0);
}

TEST_F(WandbOnlineTest, AResumedRunHasEachStepOnceAndKeepsItsSummary) {
  FakeTrackers server;
  environment.set("WANDB_BASE_URL", server.url());
  WandBLoggerOptions logger = online();
  logger.id = "";  // drawn, and kept
  train_until_killed(logger, [](Logger& log) { log.log_metrics(Dict{{"once", 0.5}}); });
  ASSERT_EQ(server.runs_of_wandb().size(), 1U);
  const std::string id = *server.runs_of_wandb().begin();
  EXPECT_THAT(column(server.streamed_to(id), "_step"), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_EQ(server.streamed_to(id)["exitcode"], 1);
  train(logger);
  EXPECT_EQ(server.runs_of_wandb().size(), 1U);
  const Json run = server.streamed_to(id);
  EXPECT_THAT(column(run, "_step"), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_EQ(column(run, "loss/train/total").size(), 8U);
  EXPECT_EQ(run["summary"]["once"], 0.5);
  EXPECT_EQ(run["summary"]["_step"], 8);
  EXPECT_EQ(run["exitcode"], 0);
  EXPECT_THAT(server.violations(), IsEmpty());
}

TEST_F(WandbOnlineTest, AProgramThatOnlyEvaluatesHasARunOfItsOwn) {
  FakeTrackers server;
  environment.set("WANDB_BASE_URL", server.url());
  train(online());
  const Json trained = server.streamed_to("team/digits/run1");
  WandBLoggerOptions logger = online();
  logger.id = "";
  {
    TrainerOptions evaluating = options(logger);
    evaluating.train_dataloader = {};
    evaluating.optimizers = {};
    evaluating.eval_dataloader = testing::tiny_loader(8, {.batch_size = 2});
    Trainer trainer(std::move(evaluating));
    trainer.eval();
  }
  EXPECT_EQ(server.streamed_to("team/digits/run1"), trained);
  EXPECT_EQ(server.runs_of_wandb().size(), 2U);
  EXPECT_THAT(server.violations(), IsEmpty());
}

TEST_F(WandbOnlineTest, ARunThatTheServerLostIsMadeAgain) {
  FakeTrackers server;
  environment.set("WANDB_BASE_URL", server.url());
  WandBLoggerOptions logger = online();
  logger.project = "my project";
  State state;
  state.run_name = "night";
  Logger log(state);
  WandBLogger wandb(logger);
  wandb.init(state, log);
  for (std::int64_t step = 0; step < 30; ++step)
    wandb.log_metrics(Dict{{"loss", 1.0}}, step);
  while (server.runs_of_wandb().empty())
    std::this_thread::yield();
  server.lose_runs_of_wandb();
  wandb.close(state, log);
  EXPECT_THAT(server.violations(), IsEmpty());
  EXPECT_EQ(column(server.streamed_to("team/my project/run1"), "loss").size(), 30U);
}

TEST_F(WandbOnlineTest, AServerThatIsAwayGetsEverythingFromTheNextStart) {
  timeout = std::chrono::seconds(0);
  {
    const FakeTrackers server;
    environment.set("WANDB_BASE_URL", server.url());
  }
  WandBLoggerOptions logger = online();
  logger.id = "";
  train_until_killed(logger);
  EXPECT_THAT(recorder->messages, Contains(HasSubstr("entries wait in " + folder.path())));
  FakeTrackers server;
  environment.set("WANDB_BASE_URL", server.url());
  timeout = std::chrono::seconds(60);
  logger.upload_timeout = timeout;
  train(logger);
  ASSERT_EQ(server.runs_of_wandb().size(), 1U);
  const Json run = server.streamed_to(*server.runs_of_wandb().begin());
  EXPECT_THAT(column(run, "_step"), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_THAT(server.violations(), IsEmpty());
}

TEST_F(WandbOnlineTest, AStartThatFindsNothingToDoSendsWhatIsLeft) {
  timeout = std::chrono::seconds(0);
  {
    const FakeTrackers server;
    environment.set("WANDB_BASE_URL", server.url());
  }
  train(online());
  FakeTrackers server;
  environment.set("WANDB_BASE_URL", server.url());
  timeout = std::chrono::seconds(60);
  train(online());
  const Json run = server.streamed_to("team/digits/run1");
  EXPECT_THAT(column(run, "_step"), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_EQ(run["exitcode"], 0);
}

TEST_F(WandbOnlineTest, ACheckpointDoesNotDivideARow) {
  FakeTrackers server;
  environment.set("WANDB_BASE_URL", server.url());
  TrainerOptions options = this->options(online());
  options.callbacks = LRMonitor();
  Trainer(std::move(options)).fit();
  const Json run = server.streamed_to("team/digits/run1");
  EXPECT_THAT(column(run, "_step"), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8));
  for (std::size_t step = 1; step < 8; ++step) {
    EXPECT_THAT(run["history"][step].dump(),
                AllOf(HasSubstr("\"loss/train/total\""), HasSubstr("\"lr-")));
  }
}

TEST_F(WandbOnlineTest, AServerThatFailsAtRandomGetsEverything) {
  FakeTrackers server({.fault_rate = 0.2, .seed = 7});
  environment.set("WANDB_BASE_URL", server.url());
  train(online());
  const Json run = server.streamed_to("team/digits/run1");
  EXPECT_EQ(column(run, "loss/train/total").size(), 8U);
  EXPECT_EQ(run["exitcode"], 0);
}

TEST_F(WandbOnlineTest, WithoutAnEntityTheRunIsTheKeyOwners) {
  FakeTrackers server;
  environment.set("WANDB_BASE_URL", server.url());
  WandBLoggerOptions logger = online();
  logger.entity = "";
  train(logger);
  EXPECT_THAT(server.runs_of_wandb(), ElementsAre("entity/digits/run1"));
}

TEST_F(WandbOnlineTest, WithoutAKeyTheStartEnds) {
  environment.set("WANDB_API_KEY", nullptr);
  EXPECT_THAT(message_of<UsageError>([&] { Trainer(options(online())); }),
              HasSubstr("set WANDB_API_KEY"));
}

}  // namespace
}  // namespace cairn
