// MLFlowLogger: a folder as MLflow lays it out, and a strict server that fails or is away.

#include <gmock/gmock.h>
#include <torch/torch.h>

#include "cairn/error.h"
#include "cairn/loggers/mlflow_logger.h"
#include "cairn/train/trainer.h"

#include "core/text/json.h"
#include "io/file.h"
#include "testing/fake_trackers.h"
#include "testing/message_of.h"
#include "testing/temp_folder.h"
#include "testing/tiny_model.h"
#include "testing/trackers_environment.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::FakeTrackers;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::LogRecorder;
using testing::message_of;
using testing::read_file;
using ::testing::SizeIs;
using testing::TempFolder;
using testing::tiny_options;

struct MlflowTest : ::testing::Test {
  MlflowTest() { environment.set("MLFLOW_TRACKING_TOKEN", testing::FakeTrackersOptions().token); }

  std::shared_ptr<MLFlowLogger> logger(const std::string& uri) {
    return std::make_shared<MLFlowLogger>(
        MLFlowLoggerOptions{.experiment_name = "digits",
                            .tags = {{"team", "vision"}},
                            .tracking_uri = uri,
                            .rename_metrics = {{"loss/train/total", "loss"}},
                            .ignore_metrics = {"time/*"},
                            .ignore_hyperparameters = {"num_*"},
                            .spool_folder = folder / "{run_name}/spool",
                            .upload_timeout = timeout});
  }
  TrainerOptions options(const std::shared_ptr<MLFlowLogger>& destination) {
    TrainerOptions made = tiny_options();
    made.run_name = "run";
    made.max_duration = "4ba";
    made.save_folder = folder / "ckpt";
    made.save_interval = "2ba";
    made.autoresume = true;
    made.loggers = {destination, recorder};
    return made;
  }
  void train(const std::shared_ptr<MLFlowLogger>& destination) {
    Trainer trainer(options(destination));
    trainer.fit();
    trainer.close();
  }
  // The only run in the folder `mlruns`.
  std::string run_folder() const {
    FileSystem& files = posix_file_system();
    const std::string experiment = join_path(folder / "mlruns", files.list(folder / "mlruns")[0]);
    for (const std::string& name : files.list(experiment)) {
      if (name != "meta.yaml") return join_path(experiment, name);
    }
    return {};
  }

  testing::CleanTrackersEnvironment environment;
  TempFolder folder;
  std::shared_ptr<LogRecorder> recorder = std::make_shared<LogRecorder>();
  std::chrono::seconds timeout{60};
};

std::vector<double> values_of(const Json& logged, const std::string& key) {
  std::vector<double> values;
  for (const Json& metric : logged["metrics"]) {
    if (metric["key"] == key) values.push_back(metric["value"]);
  }
  return values;
}

TEST_F(MlflowTest, AFolderHasMlflowsLayout) {
  train(logger(folder / "mlruns"));
  const std::string run = run_folder();
  EXPECT_THAT(read_file(run + "/meta.yaml"),
              AllOf(HasSubstr("run_name: \"run\"\n"), HasSubstr("status: 3\n"),
                    HasSubstr("lifecycle_stage: active\n")));
  EXPECT_THAT(read_file(run + "/../meta.yaml"), HasSubstr("name: \"digits\"\n"));
  EXPECT_EQ(read_file(run + "/params/rank_zero_seed"), "3");
  EXPECT_EQ(read_file(run + "/tags/team"), "vision");
  EXPECT_EQ(read_file(run + "/tags/mlflow.runName"), "run");
  std::istringstream losses(read_file(run + "/metrics/loss"));
  std::vector<double> values;
  std::int64_t time = 0;
  std::int64_t step = 0;
  for (double value = 0; losses >> time >> value >> step;)
    values.push_back(value);
  EXPECT_EQ(values, recorder->values("loss/train/total"));
  EXPECT_FALSE(posix_file_system().stat(run + "/metrics/time"));
  EXPECT_FALSE(posix_file_system().stat(run + "/params/num_nodes"));
}

TEST_F(MlflowTest, AResumedRunContinuesItsRunInTheFolder) {
  TrainerOptions first = options(logger(folder / "mlruns"));
  first.max_duration = "2ba";
  {
    Trainer trainer(std::move(first));
    trainer.fit();
  }
  const std::string run = run_folder();
  train(logger(folder / "mlruns"));
  EXPECT_EQ(run_folder(), run);
  EXPECT_EQ(posix_file_system().list(parent_path(run)).size(), 2U);  // meta.yaml and the run
  const std::string losses = read_file(run + "/metrics/loss");
  EXPECT_EQ(std::count(losses.begin(), losses.end(), '\n'), 4);
}

TEST_F(MlflowTest, AServerGetsMetricsParametersTagsAndTheEnd) {
  FakeTrackers server;
  const auto destination = logger(server.url());
  train(destination);
  EXPECT_THAT(server.violations(), IsEmpty());
  EXPECT_EQ(server.runs(), 1U);
  const Json logged = server.logged_to("run2");
  EXPECT_EQ(logged["name"], "run");
  EXPECT_EQ(logged["status"], "FINISHED");
  EXPECT_EQ(logged["params"]["rank_zero_seed"], "3");
  EXPECT_EQ(values_of(logged, "loss"), recorder->values("loss/train/total"));
  EXPECT_THAT(posix_file_system().list(folder / "run/spool"), ElementsAre("run_id"));
}

TEST_F(MlflowTest, AResumedRunContinuesItsRunOnTheServer) {
  FakeTrackers server;
  TrainerOptions first = options(logger(server.url()));
  first.max_duration = "2ba";
  {
    Trainer trainer(std::move(first));
    trainer.fit();
  }
  train(logger(server.url()));
  EXPECT_EQ(server.runs(), 1U);
  EXPECT_EQ(values_of(server.logged_to("run2"), "loss").size(), 4U);
  EXPECT_EQ(server.logged_to("run2")["status"], "FINISHED");
}

TEST_F(MlflowTest, AServerThatIsAwayGetsEverythingFromTheNextStart) {
  timeout = std::chrono::seconds(0);
  int port = 0;
  {
    FakeTrackers server;
    port = server.port();
  }
  train(logger("http://127.0.0.1:" + std::to_string(port)));
  EXPECT_THAT(recorder->messages,
              ::testing::Contains(HasSubstr("entries wait in " + folder.path())));
  const std::vector<double> losses = recorder->values("loss/train/total");
  FakeTrackers server;
  timeout = std::chrono::seconds(60);
  State state;
  state.run_name = "run";
  Logger log(state);
  const auto next = logger(server.url());
  next->init(state, log);
  next->log_metrics(Dict{{"more", 1.0}}, 5);
  next->close(state, log);
  EXPECT_EQ(values_of(server.logged_to("run2"), "loss"), losses);
  EXPECT_THAT(values_of(server.logged_to("run2"), "more"), ElementsAre(1.0));
}

TEST_F(MlflowTest, AServerThatFailsAtRandomGetsEverything) {
  FakeTrackers server({.fault_rate = 0.2, .seed = 7});
  const auto destination = logger(server.url());
  train(destination);
  const Json logged = server.logged_to(destination->run_id());
  EXPECT_EQ(values_of(logged, "loss").size(), 4U);
  EXPECT_EQ(logged["status"], "FINISHED");
}

TEST_F(MlflowTest, RepeatedValuesAreLoggedOnceInAHundredBatches) {
  FakeTrackers server;
  State state;
  Logger log(state);
  const auto destination = logger(server.url());
  destination->init(state, log);
  for (std::int64_t step = 0; step < 150; ++step)
    destination->log_metrics(Dict{{"lr", 0.1}}, step);
  destination->log_metrics(Dict{{"nan", NAN}}, 0);
  destination->close(state, log);
  EXPECT_THAT(values_of(server.logged_to("run2"), "lr"), SizeIs(2));
  EXPECT_THAT(server.violations(), IsEmpty());
}

TEST_F(MlflowTest, TablesAndImagesAreArtifacts) {
  FakeTrackers server({.serves_artifacts = true});
  State state;
  Logger log(state);
  const auto destination = logger(server.url());
  log.add(destination);
  destination->init(state, log);
  log.log_table({.columns = {"a"}, .rows = {{1}}, .name = "T"});
  log.log_images({.images = torch::zeros({2, 3, 4, 4}), .name = "I"}, 7);
  destination->close(state, log);
  EXPECT_THAT(server.violations(), IsEmpty());
  std::vector<std::string> names;
  for (const auto& [path, bytes] : server.files())
    names.push_back(path);
  EXPECT_THAT(names, ElementsAre("exp1/run2/artifacts/T_step_0.json",
                                 "exp1/run2/artifacts/images/I_0_step_7.png",
                                 "exp1/run2/artifacts/images/I_1_step_7.png"));
  EXPECT_EQ(server.files()[names.at(0)], R"({"columns":["a"],"data":[[1]]})");
}

TEST_F(MlflowTest, WrongAddressesEndTheStart) {
  State state;
  Logger log(state);
  EXPECT_THAT(message_of<UsageError>([&] { logger("ftp://host")->init(state, log); }),
              HasSubstr("tracking_uri"));
  EXPECT_THAT(message_of<UsageError>([&] { logger("databricks")->init(state, log); }),
              HasSubstr("/Shared/"));
}

}  // namespace
}  // namespace cairn
