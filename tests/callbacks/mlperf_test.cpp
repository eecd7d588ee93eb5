#include "cairn/callbacks/mlperf.h"

#include <gmock/gmock.h>

#include <sstream>

#include <nlohmann/json.hpp>

#include "cairn/error.h"
#include "cairn/train/trainer.h"

#include "testing/message_of.h"
#include "testing/temp_folder.h"
#include "testing/tiny_model.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TempFolder;
using testing::tiny_options;

// MeanOutput is far above -1000 in every evaluation.
MLPerfOptions submission(const std::string& folder, double target) {
  return {.root_folder = folder,
          .index = 3,
          .target = target,
          .metric_name = "MeanOutput",
          .metric_label = "val",
          .system_name = "1xCPU"};
}

TrainerOptions submitted_run(MLPerfOptions options) {
  TrainerOptions made = tiny_options({.metrics = true});
  made.max_duration = "2ep";
  made.eval_dataloader = Evaluator{.label = "val", .dataloader = testing::tiny_loader(4)};
  made.seed = 5;
  made.callbacks = MLPerfCallback(std::move(options));
  return made;
}

std::vector<nlohmann::json> lines_of(const std::string& path) {
  std::istringstream text(testing::read_file(path));
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(text, line);) {
    EXPECT_TRUE(line.starts_with(":::MLLOG ")) << line;
    lines.push_back(nlohmann::json::parse(line.substr(9)));
  }
  return lines;
}

TEST(MLPerfTest, WritesTheLinesOfARun) {
  const TempFolder folder;
  {
    Trainer trainer(submitted_run(submission(folder.path(), -1000)));
    trainer.fit();
  }
  const auto lines = lines_of(folder / "results/1xCPU/resnet/result_3.txt");
  std::vector<std::string> keys;
  std::map<std::string, nlohmann::json> last;
  for (const nlohmann::json& line : lines) {
    keys.push_back(line.at("key"));
    last[keys.back()] = line;
  }
  EXPECT_THAT(keys,
              ElementsAre("init_start", "submission_benchmark", "submission_division",
                          "submission_org", "submission_platform", "submission_status", "seed",
                          "global_batch_size", "device_train_microbatch_size", "train_samples",
                          "eval_samples", "init_stop", "run_start",                              //
                          "epoch_start", "block_start", "epoch_stop",                            //
                          "eval_start", "eval_stop", "eval_accuracy", "block_stop", "run_stop",  //
                          "epoch_start", "block_start", "epoch_stop",                            //
                          "eval_start", "eval_stop", "eval_accuracy", "block_stop"));
  EXPECT_EQ(last["seed"]["value"], 5);
  EXPECT_EQ(last["global_batch_size"]["value"], 2);
  EXPECT_EQ(last["train_samples"]["value"], 10);
  EXPECT_EQ(last["eval_samples"]["value"], 4);
  EXPECT_EQ(last["submission_platform"]["value"], "1xCPU");
  EXPECT_EQ(last["epoch_start"]["metadata"]["epoch_num"], 1);
  EXPECT_EQ(last["run_stop"]["metadata"]["status"], "success");
  EXPECT_GT(last["run_start"]["time_ms"].get<std::int64_t>(), 1'600'000'000'000);
}

TEST(MLPerfTest, EndsTrainingAtTheTargetWhenAsked) {
  const TempFolder folder;
  MLPerfOptions options = submission(folder.path(), -1000);
  options.exit_at_target = true;
  Trainer trainer(submitted_run(options));
  trainer.fit();
  EXPECT_EQ(trainer.state().timestamp.epoch, 1);
}

TEST(MLPerfTest, RefusesWhatCannotBeSubmitted) {
  const TempFolder folder;
  EXPECT_THROW(MLPerfCallback({.root_folder = folder.path(), .index = 1}), UsageError);
  MLPerfOptions other = submission(folder.path(), 0);
  other.benchmark = "chess";
  EXPECT_THROW(MLPerfCallback{other}, UsageError);

  MLPerfOptions unknown = submission(folder.path(), 0);
  unknown.metric_name = "MulticlassAccuracy";
  Trainer trainer(submitted_run(unknown));
  EXPECT_THAT(message_of<UsageError>([&] { trainer.fit(); }),
              HasSubstr("there is no metric \"MulticlassAccuracy\" of \"val\""));
  EXPECT_THAT(message_of<AlreadyExistsError>(
                  [&] { Trainer again(submitted_run(submission(folder.path(), 0))); }),
              HasSubstr("set another index"));
}

}  // namespace
}  // namespace cairn
